// What a browser asks the server about a class, and how it learns that there is something new.

import { _ } from "../../chart/words.js";

const AGAIN = 2000; // milliseconds until a lost connection is tried again
/** Has the server answer in the language of the page, which may be that of a link. */
const language = () => ({ "accept-language": document.documentElement.lang });

export class Connection {
  /** @type {EventSource | undefined} */
  source;
  seen = "";
  ended = false;
  reading = false;
  waits = false;

  /**
   * @param {string} address of the class
   * @param {"state" | "panel"} part what is read: what everybody sees, or what the teacher sees
   * @param {(state: any) => void} show is called with what was read, after each change
   * @param {(status: "live" | "lost" | "ended") => void} tell
   */
  constructor(address, part, show, tell) {
    this.address = address;
    this.part = part;
    this.show = show;
    this.tell = tell;
    // A computer that was asleep, or a phone in a pocket: the stream may be dead without an error.
    this.wake = () => document.visibilityState === "visible" && !this.ended && this.listen();
    document.addEventListener("visibilitychange", this.wake);
    window.addEventListener("online", this.wake);
    this.listen();
  }

  /** Listens for new versions. */
  listen() {
    this.source?.close();
    const source = new EventSource(`${this.address}/events?part=${this.part}`);
    this.source = source;
    source.onmessage = ({ data }) => {
      if (data !== this.seen) this.read();
      else this.tell("live");
    };
    source.addEventListener("ended", () => this.end());
    source.onerror = () => {
      this.tell("lost");
      if (source.readyState === EventSource.CLOSED) setTimeout(() => source === this.source && this.read(), AGAIN);
    };
  }

  /** Reads what is new; what changes meanwhile is read after it. */
  async read() {
    if (this.reading) return void (this.waits = true);
    this.reading = true;
    try {
      do {
        this.waits = false;
        const state = await this.get();
        if (!state) return;
        this.seen = String(state.version);
        this.tell("live");
        this.show(state);
      } while (this.waits);
      if (this.source?.readyState === EventSource.CLOSED) this.listen();
    } catch {
      this.readAgain();
    } finally {
      this.reading = false;
    }
  }

  /** Reads once more after a while, as something could not be read or shown. */
  readAgain() {
    this.seen = "";
    this.tell("lost");
    setTimeout(() => this.ended || this.read(), AGAIN);
  }

  /** @returns {Promise<any>} what is read; null if the class has ended */
  async get() {
    const response = await fetch(`${this.address}/${this.part}`, { cache: "no-store", headers: language() });
    if (response.status === 404) return this.end();
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }

  /**
   * Sends something. Its error is a sentence for the person at the screen.
   * @param {string} what
   * @param {object} [content]
   */
  async send(what, content = {}) {
    let response;
    try {
      response = await fetch(`${this.address}/${what}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...language() },
        body: JSON.stringify(content),
      });
    } catch {
      throw new Error(_("The class cannot be reached. Nothing was sent: try again."));
    }
    if (!response.ok) throw new Error((await response.text()).slice(0, 300));
    return response.json();
  }

  end() {
    this.ended = true;
    this.close();
    this.tell("ended");
    return null;
  }

  close() {
    this.source?.close();
    document.removeEventListener("visibilitychange", this.wake);
    window.removeEventListener("online", this.wake);
  }
}
