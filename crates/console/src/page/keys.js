// The keys. A key in a text field is text, and one on a button is the button's.

/** Calls what a key stands for. */
export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const { target, key } = event;
    const typing = target.closest("input, textarea, select");
    if (key === "Escape") {
      if (typing?.id === "search" && typing.value) return;
      if (typing?.id === "search") target.blur();
      else actions.close();
      return;
    }
    if (typing) return;
    const button = target.closest("button, summary, a, pre");
    if (button && ["Enter", " ", "ArrowDown", "ArrowUp"].includes(key)) return;
    const action = {
      j: actions.next, ArrowDown: actions.next, k: actions.previous, ArrowUp: actions.previous, Enter: actions.open,
      c: actions.cancel, "/": actions.search, p: actions.pause, "?": actions.help, "+": actions.nearer, "=": actions.nearer,
      "-": actions.farther, h: actions.earlier, l: actions.later, f: actions.follow,
    }[key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
