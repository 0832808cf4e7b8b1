// @ts-check
// The keyboard shortcuts. A key in a text field is text, and a key on a button belongs to the button.

/**
 * Calls the action of a key.
 * @param {Record<"next" | "previous" | "first" | "last" | "open" | "cancel" | "close" | "search" | "pause" | "stop" | "processes" | "help" | "nearer" | "farther" | "earlier" | "later" | "follow", () => void>} actions
 */
export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const { key } = event;
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = /** @type {HTMLInputElement | null} */ (target.closest("input, textarea, select"));
    if (key === "Escape") {
      if (typing?.id === "search" && typing.value) return;
      if (typing?.id === "search") target.blur();
      else actions.close();
      return;
    }
    if (typing) return;
    const button = target.closest("button, summary, a, pre");
    if (button && ["Enter", " ", "ArrowDown", "ArrowUp", "Home", "End"].includes(key)) return;
    // These scroll the page, unless a request is chosen.
    if ([" ", "Home", "End"].includes(key) && !target.closest("#rows")) return;
    /** @type {Record<string, () => void>} */
    const byKey = {
      j: actions.next, ArrowDown: actions.next, k: actions.previous, ArrowUp: actions.previous, Enter: actions.open,
      " ": actions.open, Home: actions.first, End: actions.last, c: actions.cancel, "/": actions.search, p: actions.pause, s: actions.stop, o: actions.processes, "?": actions.help, "+": actions.nearer, "=": actions.nearer,
      "-": actions.farther, h: actions.earlier, l: actions.later, f: actions.follow,
    };
    const action = byKey[key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
