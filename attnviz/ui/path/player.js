// Goes through steps, one after the other: by itself, frame by frame, or by hand.

const [DURATION, SHORT] = [1500, 250]; // milliseconds a step takes

export class Player {
  /** @type {number | null} the step; null: everything is shown */
  step = null;
  share = 1; // of the step
  isPlaying = false;
  /** @type {number | null} when the last frame was */
  #before = null;
  #frame = 0;

  /** @param {() => void} draw */
  constructor(draw) {
    this.draw = draw;
    this.isShort = (/** @type {number} */ _step) => false;
    this.count = 0;
  }

  /**
   * @param {number} count of the steps of another picture
   * @param {(step: number) => boolean} [isShort]
   */
  restart(count, isShort = () => false) {
    this.#stop();
    this.count = count;
    this.isShort = isShort;
    this.step = null;
    this.share = 1;
  }

  play() {
    if (this.isPlaying || !this.count) return;
    if (this.step === null || (this.step === this.count - 1 && this.share >= 1)) [this.step, this.share] = [0, 0];
    this.isPlaying = true;
    this.#before = null;
    this.#frame = requestAnimationFrame(this.#tick);
    this.draw();
  }

  pause() {
    this.#stop();
    this.draw();
  }

  /** @param {number} by 1 or −1; before the first step everything is shown */
  go(by) {
    this.#stop();
    const next = (this.step ?? (by > 0 ? -1 : this.count)) + by;
    this.step = next < 0 || next >= this.count ? null : next;
    this.share = 1;
    this.draw();
  }

  #stop() {
    this.isPlaying = false;
    cancelAnimationFrame(this.#frame);
  }

  #tick = (/** @type {number} */ now) => {
    if (!this.isPlaying || this.step === null) return;
    this.share += (now - (this.#before ?? now)) / (this.isShort(this.step) ? SHORT : DURATION);
    this.#before = now;
    if (this.share >= 1 && this.step < this.count - 1) [this.step, this.share] = [this.step + 1, 0];
    else if (this.share >= 1) {
      this.share = 1;
      this.isPlaying = false;
    }
    if (this.isPlaying) this.#frame = requestAnimationFrame(this.#tick);
    this.draw();
  };
}
