// A pointer from when it is pressed.

/**
 * Follows a pointer until it is lifted. Plotly covers the page while a button is down, so that its events arrive at the
 * window alone.
 * @param {PointerEvent} down
 * @param {(event: PointerEvent) => void} end is called when it is lifted, or canceled
 * @param {(event: PointerEvent) => void} [move]
 */
export function follow(down, end, move = () => {}) {
  const followed = new AbortController();
  for (const kind of /** @type {const} */ (["pointermove", "pointerup", "pointercancel"]))
    window.addEventListener(
      kind,
      (event) => {
        if (event.pointerId !== down.pointerId) return;
        if (kind === "pointermove") return move(event);
        followed.abort();
        end(event);
      },
      { signal: followed.signal },
    );
}
