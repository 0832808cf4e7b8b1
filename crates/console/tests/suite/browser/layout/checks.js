// Checks of a page's layout, run in the page after it has loaded. Each returns its findings, one line each: where, and what
// is wrong. What is not shown, or not reachable behind an open dialog, is not looked at.
globalThis.layout = (() => {
  "use strict";

  /** Pixels that rounding may cost, and the part of a line's height that no letter reaches. */
  const SLACK = 1;
  const EMPTY = 0.3;
  /** Letters in a line of which there are so few that nobody reads them. */
  const SQUEEZED = 4;
  const CONTROL = "a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=link], [role=tab], [tabindex]:not([tabindex='-1'])";
  /** What takes the focus only to be scrolled by keys: nobody has to hit it. */
  const SCROLLED = "pre, [role=region], section";

  const style = (node) => getComputedStyle(node);
  const words = (text) => text.replace(/\s+/g, " ").trim();
  /** The dialog that hides everything else from the user, or the page. */
  const scope = () => [...document.querySelectorAll("dialog:modal")].at(-1) ?? document.body;

  /** Where something is, for people; and what it says. */
  const place = (node) => {
    const own = (at) => (at.id ? `#${at.id}` : [at.localName, ...at.classList].join("."));
    let path = own(node);
    for (let at = node.parentElement; at && at !== document.body && !path.startsWith("#"); at = at.parentElement) {
      if (at.id || at.classList.length) path = `${own(at)} ${path}`;
    }
    return path;
  };
  const where = (node) => {
    const text = words(node.textContent).slice(0, 40);
    return text ? `${place(node)} “${text}”` : place(node);
  };

  /** What was found of an element: it holds for one check. */
  let known = new Map();
  const once = (about) => {
    const key = {};
    return (node) => {
      let all = known.get(key);
      if (!all) known.set(key, (all = new Map()));
      if (!all.has(node)) all.set(node, about(node));
      return all.get(node);
    };
  };

  /** Whether only programs that read aloud are meant to find it. */
  const isReadOnly = once((node) => {
    if (!node || node === document.body) return false;
    const { clipPath, overflow, position } = style(node);
    if (clipPath === "inset(50%)") return true;
    if (position === "absolute" && overflow === "hidden" && node.offsetWidth <= 1 && node.offsetHeight <= 1) return true;
    return isReadOnly(node.parentElement);
  });
  const isShown = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !isReadOnly(node);

  const controls = () => [...scope().querySelectorAll(CONTROL)].filter((node) => isShown(node) && !node.closest("[inert]"));

  /** Every text that is shown, with the boxes of its lines. */
  const texts = () => {
    const walker = document.createTreeWalker(scope(), NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const text = walker.currentNode;
      const parent = text.parentElement;
      if (!text.data.trim() || parent.closest("script, style, option") || !isShown(parent)) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      // A space that is kept at the end of a line hangs over it.
      const least = style(parent).whiteSpace === "pre-wrap" ? 0.62 * parseFloat(style(parent).fontSize) : 0;
      const lines = [...range.getClientRects()].filter(({ width, height }) => width > least && height > 0);
      if (lines.length) found.push({ text, parent, lines });
    }
    return found;
  };

  const sides = ({ left, top, right, bottom }) => ({ left, top, right, bottom });
  /** The inside of an element's borders. */
  const inside = (node) => {
    const { left, top } = node.getBoundingClientRect();
    const [x, y] = [left + node.clientLeft, top + node.clientTop];
    return { left: x, top: y, right: x + node.clientWidth, bottom: y + node.clientHeight };
  };

  /** The elements that clip what is in `node`, or with `around` the node itself, and how they do in each direction. */
  const clipping = (node, around = false) => (around ? clippingAround : clippingWithin)(node);
  const clippingAround = once((node) => [...clippers(node, true)]);
  const clippingWithin = once((node) => [...clippers(node, false)]);
  function* clippers(node, around) {
    // An absolute position is clipped by its containing block and what is above that, not by what is between.
    let escapes = around && style(node).position === "absolute";
    if (around && style(node).position === "fixed") return;
    for (let at = around ? node.parentElement : node; at && at !== document.body; at = at.parentElement) {
      const { contain, overflowX, overflowY, position, transform } = style(at);
      const paints = /paint|strict|content/.test(contain);
      const holds = position !== "static" || transform !== "none" || paints || contain.includes("layout");
      if (!escapes || holds) {
        const mode = (overflow) => (overflow === "visible" && paints ? "clip" : overflow);
        const [x, y] = [mode(overflowX), mode(overflowY)];
        if (x !== "visible" || y !== "visible") yield { at, x, y };
        escapes = position === "absolute";
      }
      if (position === "fixed") return;
    }
  }

  const hides = (overflow) => overflow === "hidden" || overflow === "clip";
  const narrowed = (rect, box, x, y) => ({
    left: x ? Math.max(rect.left, box.left) : rect.left,
    right: x ? Math.min(rect.right, box.right) : rect.right,
    top: y ? Math.max(rect.top, box.top) : rect.top,
    bottom: y ? Math.min(rect.bottom, box.bottom) : rect.bottom,
  });
  const isEmpty = ({ left, top, right, bottom }) => right - left <= SLACK || bottom - top <= SLACK;

  /** The part of a box in `node` that is seen; null if that is none. */
  const seen = (node, box, around = false) => {
    let rect = sides(box);
    for (const { at, x, y } of clipping(node, around)) rect = narrowed(rect, inside(at), x !== "visible", y !== "visible");
    return isEmpty(rect) ? null : rect;
  };

  /** Whether it says that some of its text is cut, and the whole text is to be had. */
  const tells = (node) => {
    const { textOverflow, webkitLineClamp } = style(node);
    if (textOverflow !== "ellipsis" && (!webkitLineClamp || webkitLineClamp === "none")) return false;
    const whole = words(node.textContent);
    for (let at = node; at && at !== document.body; at = at.parentElement) {
      const said = [at.getAttribute("title"), at.getAttribute("aria-label")];
      if (said.some((text) => text && words(text).includes(whole))) return true;
    }
    return false;
  };

  /** Text that is cut, or reaches out of its box. */
  const cut = () => {
    const found = new Set();
    for (const { text, parent, lines } of texts()) {
      // What is drawn for the eye alone is told as text elsewhere.
      if (parent.closest("[aria-hidden=true]")) continue;
      const letters = words(text.data).length / lines.length;
      if (lines.length > 3 && letters < SQUEEZED) found.add(`${where(parent)}: has ${letters.toFixed(0)} letters in a line`);
      let holder = parent;
      while (["inline", "contents"].includes(style(holder).display) && holder.parentElement) holder = holder.parentElement;
      for (const line of lines) {
        let rect = sides(line);
        const height = rect.bottom - rect.top;
        let isCut = false;
        for (const { at, x, y } of clipping(parent)) {
          const box = inside(at);
          const wide = Math.max(box.left - rect.left, rect.right - box.right);
          const high = Math.max(box.top - rect.top, rect.bottom - box.bottom);
          if ((hides(x) && wide > SLACK) || (hides(y) && high > height * EMPTY)) {
            isCut = true;
            if (!tells(at)) found.add(`${where(at)}: cuts “${words(parent.textContent).slice(0, 40)}”`);
            break;
          }
          rect = narrowed(rect, box, x !== "visible", y !== "visible");
          // What has been scrolled out of sight can be scrolled back.
          if (isEmpty(rect)) break;
        }
        const box = holder.getBoundingClientRect();
        const { overflowX, overflowY } = style(holder);
        if (isCut || !box.width || !box.height) continue;
        const out = Math.max(box.left - line.left, line.right - box.right);
        if (overflowX === "visible" && out > SLACK) found.add(`${where(holder)}: its text reaches out by ${out.toFixed(0)} px`);
        if (overflowY === "visible" && line.bottom - box.bottom > height * EMPTY) found.add(`${where(holder)}: its text reaches out below`);
      }
    }
    const pen = document.createElement("canvas").getContext("2d");
    for (const input of scope().querySelectorAll("input[placeholder]")) {
      if (!isShown(input) || input.value) continue;
      const { font, paddingLeft, paddingRight } = style(input);
      pen.font = font;
      const room = input.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
      if (pen.measureText(input.placeholder).width > room + SLACK) found.add(`${where(input)}: cuts its placeholder`);
    }
    return [...found];
  };

  /** What is wider than the window, and what has to be scrolled sideways. */
  const sideways = () => {
    const { clientWidth: width, scrollWidth } = document.documentElement;
    const found = [];
    const wide = new Set();
    if (scrollWidth > width) found.push(`the page is ${scrollWidth} px wide, and the window ${width}`);
    for (const node of scope().querySelectorAll("*")) {
      if (!isShown(node)) continue;
      const { overflowX } = style(node);
      if (["auto", "scroll"].includes(overflowX) && node.scrollWidth > node.clientWidth + SLACK) {
        // A table may need two directions, and each control of a strip comes into sight with the focus.
        const isRegion = node.matches("[role=region][tabindex='0'][aria-label], [role=region][tabindex='0'][aria-labelledby]");
        const isStrip = [...node.children].every((child) => child.matches(CONTROL));
        if (!isRegion && !isStrip) found.push(`${where(node)}: scrolls sideways, ${node.scrollWidth} px in ${node.clientWidth}`);
      }
      const box = node.getBoundingClientRect();
      const rect = box.width && box.right > 0 ? seen(node, box, true) : null;
      if (!rect || (rect.right <= width + SLACK && rect.left >= -SLACK)) continue;
      wide.add(node);
      if (!wide.has(node.parentElement)) found.push(`${where(node)}: reaches out of the window, from ${rect.left.toFixed(0)} to ${rect.right.toFixed(0)} of ${width} px`);
    }
    return found;
  };

  /** What deliberately lies above the rest: the nearest such ancestor. */
  const layer = once((node) => {
    if (!node || node === document.body) return null;
    const { bottom, position, zIndex } = style(node);
    const isAbove = node.localName === "dialog" || position === "fixed" || (position === "sticky" && bottom !== "auto") || (position === "absolute" && Number(zIndex) > 0);
    return isAbove ? node : layer(node.parentElement);
  });

  /** Texts and controls that lie on one another. */
  const overlaps = () => {
    const things = [];
    for (const { parent, lines } of texts()) {
      for (const { left, top, right, bottom } of lines) {
        // Letters leave the ends of their line's box empty.
        const rest = ((bottom - top) * EMPTY) / 2;
        const part = seen(parent, { left, right, top: top + rest, bottom: bottom - rest });
        if (part) things.push({ node: parent, layer: layer(parent), ...part });
      }
    }
    for (const node of controls()) {
      const part = seen(node, node.getBoundingClientRect(), true);
      if (part) things.push({ node, layer: layer(node), ...part });
    }
    things.sort((a, b) => a.top - b.top);
    const found = new Set();
    things.forEach((one, index) => {
      for (const other of things.slice(index + 1)) {
        if (other.top >= one.bottom - SLACK) break;
        if (one.layer !== other.layer || one.node.contains(other.node) || other.node.contains(one.node)) continue;
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const high = Math.min(one.bottom, other.bottom) - other.top;
        if (wide > SLACK && high > SLACK) found.add(`${where(one.node)} and ${where(other.node)}: overlap by ${wide.toFixed(0)} × ${high.toFixed(0)} px`);
      }
    });
    return [...found];
  };

  const isInText = (link) => {
    const around = link.matches("a") && link.parentElement.matches("p, li, dd, td, span") ? words(link.parentElement.textContent) : "";
    return around.length > words(link.textContent).length;
  };

  /** Whether a finger that misses the middle by half of `least` still hits it: its area may reach beyond its box. */
  const isHit = (control, least) => {
    control.scrollIntoView({ block: "center", inline: "center" });
    const { left, top, width, height } = control.getBoundingClientRect();
    const [x, y, off] = [left + width / 2, top + height / 2, least / 2 - SLACK];
    const hits = ([dx, dy]) => {
      const at = document.elementFromPoint(x + dx, y + dy);
      return at !== null && (control.contains(at) || Boolean(at.closest("label")?.contains(control)));
    };
    const points = [[0, 0], [-off, 0], [off, 0], [0, -off], [0, off]];
    return points.every(hits);
  };

  /** What a finger has to hit and is smaller than `least` pixels. */
  const targets = (least) => {
    const found = [];
    for (const control of controls()) {
      if (control.matches(SCROLLED) || isInText(control) || !seen(control, control.getBoundingClientRect(), true)) continue;
      const { width, height } = control.getBoundingClientRect();
      const isLarge = width >= least - SLACK / 2 && height >= least - SLACK / 2;
      if (!isLarge && !isHit(control, least)) found.push(`${where(control)}: ${width.toFixed(0)} × ${height.toFixed(0)} px`);
    }
    scrollTo(0, 0);
    return found;
  };

  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  /** Red, green, blue and alpha of a colour, as the browser has it. */
  const rgba = (colour) => {
    let found = colours.get(colour);
    if (!found) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = "#000";
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      colours.set(colour, (found = [r, g, b, a / 255]));
    }
    return found;
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((one, index) => one * a + under[index] * (1 - a));
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [more, less] = [light(one), light(other)].sort((a, b) => b - a);
    return (more + 0.05) / (less + 0.05);
  };
  const STOPS = /(?:rgba?|color|hsla?|oklch|oklab)\([^()]*\)/g;

  /** Every colour that an element may paint on one that lies below: its own, and those of its gradient. */
  const grounds = (node, under) => {
    const { backgroundColor, backgroundImage } = style(node);
    const own = over(rgba(backgroundColor), under);
    return [own, ...(backgroundImage.match(STOPS) ?? []).map((stop) => over(rgba(stop), own))];
  };

  /** An element and those above it that paint anything below it, or make it faint; the topmost first. */
  const paintedBy = once((node) => {
    if (!node) return [];
    const { backgroundColor, backgroundImage, opacity } = style(node);
    const above = paintedBy(node.parentElement);
    return backgroundImage !== "none" || Number(opacity) < 1 || rgba(backgroundColor)[3] > 0 ? [...above, node] : above;
  });

  /** What an ink looks like in an element, and what lies behind it, for all that may: pairs of colours. `upon` lies between. */
  const painted = (node, ink, upon = []) => {
    const chain = paintedBy(node);
    const paint = (index, under) => {
      if (index === chain.length) {
        const ground = upon.reduce((all, one) => all.flatMap((colour) => grounds(one, colour)), [under]);
        return ground.map((colour) => [over(rgba(ink), colour), colour]);
      }
      const { opacity } = style(chain[index]);
      const pairs = grounds(chain[index], under).flatMap((colour) => paint(index + 1, colour));
      const faint = (colour) => colour.map((one, at) => one * Number(opacity) + under[at] * (1 - Number(opacity)));
      return Number(opacity) < 1 ? pairs.map(([one, other]) => [faint(one), faint(other)]) : pairs;
    };
    return paint(0, [255, 255, 255]);
  };

  /** The elements that lie under a text that was put on them: a list for each different place along it. */
  const beneath = (node, { left, right, top, bottom }) => {
    if (style(node).position !== "absolute") return [[]];
    const before = [];
    for (let at = node.previousElementSibling; at; at = at.previousElementSibling) before.unshift(at, ...at.querySelectorAll("*"));
    const boxes = before.filter(isShown).map((one) => ({ one, ...sides(one.getBoundingClientRect()) }));
    const places = new Map();
    for (let x = left + 1; x < right; x += 4) {
      const there = boxes.filter((box) => box.left <= x && x <= box.right && box.top < bottom && top < box.bottom);
      places.set(there.map(({ one }) => boxes.findIndex((box) => box.one === one)).join(), there.map(({ one }) => one));
    }
    return places.size ? [...places.values()] : [[]];
  };

  /** Texts whose contrast with what lies behind them is too low: 4.5 to 1, for large ones 3 to 1. */
  const contrast = () => {
    const found = new Set();
    const look = (node, ink, stacks) => {
      const { fontSize, fontWeight } = style(node);
      const isLarge = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);
      const least = Math.min(...stacks.flatMap((upon) => painted(node, ink, upon)).map(([one, other]) => ratio(one, other)));
      if (least < (isLarge ? 3 : 4.5)) found.add(`${where(node)}: contrast ${least.toFixed(2)}`);
    };
    const looked = new Set();
    for (const { parent, lines } of texts()) {
      if (looked.has(parent) || parent.closest(":disabled, [aria-disabled=true]")) continue;
      looked.add(parent);
      const parts = lines.map((line) => seen(parent, line)).filter(Boolean);
      if (parts.length) look(parent, style(parent).color, parts.flatMap((part) => beneath(parent, part)));
    }
    for (const input of scope().querySelectorAll("input[placeholder]")) {
      if (isShown(input) && !input.value) look(input, getComputedStyle(input, "::placeholder").color, [[]]);
    }
    return [...found];
  };

  /** Controls whose edge, where one is drawn or needed, has less than 3 to 1 to what lies around. */
  const borders = () => {
    const found = [];
    for (const control of controls()) {
      if (!control.matches("button, input, select, textarea") || control.disabled) continue;
      const { backgroundColor, borderTopColor, borderTopStyle, borderTopWidth } = style(control);
      const isDrawn = borderTopStyle !== "none" && parseFloat(borderTopWidth) > 0 && rgba(borderTopColor)[3] > 0;
      if (!isDrawn && control.matches("button")) continue;
      const around = painted(control.parentElement, "rgb(0 0 0 / 0)").map(([, ground]) => ground);
      const best = (ground) => {
        const own = over(rgba(backgroundColor), ground);
        return Math.max(ratio(own, ground), isDrawn ? ratio(over(rgba(borderTopColor), own), ground) : 1);
      };
      const least = Math.min(...around.map(best));
      if (least < 3) found.push(`${where(control)}: contrast of its edge ${least.toFixed(2)}`);
    }
    return found;
  };

  /** The first request, if it is not whole on the first screen. */
  const firstScreen = () => {
    const row = document.querySelector("#rows > *");
    if (!row) return ["no request is shown"];
    const bottom = row.getBoundingClientRect().bottom + scrollY;
    return bottom > innerHeight + SLACK ? [`${where(row)}: ends at ${bottom.toFixed(0)} of ${innerHeight} px`] : [];
  };

  let stops = [];
  document.addEventListener("focusin", ({ target }) => stops.push(target));
  const tabbable = () => controls().concat([...scope().querySelectorAll("a[href], button, input, summary")].filter(isReadOnly))
    .filter((node) => node.tabIndex >= 0 && !node.disabled && !node.closest("[inert]") && node.checkVisibility({ visibilityProperty: true }));

  /** Puts the focus before everything. Returns how often Tab has to be pressed to reach all. */
  const begin = () => {
    const first = document.createElement("span");
    first.tabIndex = -1;
    scope().prepend(first);
    first.focus();
    first.remove();
    stops = [];
    return tabbable().length + 2;
  };

  /** Where Tab went, in its order, each place once. */
  const visited = () => [...new Set(stops)].filter((node) => node.isConnected && node !== document.body && scope().contains(node));

  /** Whether the eye comes to `other` before `one`: above it, or to its left in one line. */
  const isBefore = (other, one) => {
    if (other.bottom <= one.top + SLACK) return other.left < one.right - SLACK;
    const isLine = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 0.5 * Math.min(one.bottom - one.top, other.bottom - other.top);
    return isLine && other.right <= one.left + SLACK;
  };

  /** Steps of Tab that go back, and controls that it does not reach. `begin` and the keys come first. */
  const order = () => {
    const found = [];
    const reached = visited();
    scrollTo(0, 0);
    for (const node of tabbable()) if (!reached.includes(node)) found.push(`${where(node)}: is not reached by Tab`);
    const steps = reached.filter((node) => !isReadOnly(node));
    steps.slice(1).forEach((node, index) => {
      const last = steps[index];
      // Side by side stand the parts of the page that have both, not these alone.
      let [one, other] = [last, node];
      if (last.contains(node) || node.contains(last)) return;
      while (!one.parentElement.contains(node)) one = one.parentElement;
      while (!other.parentElement.contains(last)) other = other.parentElement;
      const box = (part, leaf) => {
        const rect = part.getBoundingClientRect();
        return rect.width && rect.height ? rect : leaf.getBoundingClientRect();
      };
      if (isBefore(box(other, node), box(one, last))) found.push(`${where(node)}: follows ${where(last)}, and stands before it`);
    });
    return found;
  };

  /** What has the focus and does not show it. `begin` and the keys come first. */
  const rings = () => {
    const found = new Set();
    document.activeElement?.blur();
    // Backwards, too: what comes into sight from above may lie under what stands there.
    for (const node of [...visited(), ...visited().reverse()]) {
      node.focus();
      if (document.activeElement !== node) continue;
      if (isReadOnly(node)) {
        found.add(`${where(node)}: has the focus and cannot be seen`);
        continue;
      }
      const { outlineColor, outlineOffset, outlineStyle, outlineWidth } = style(node);
      const width = outlineStyle === "none" ? 0 : parseFloat(outlineWidth);
      if (width < 1) {
        found.add(`${where(node)}: has no focus ring`);
        continue;
      }
      const out = width + parseFloat(outlineOffset);
      const box = node.getBoundingClientRect();
      const ring = { left: box.left - out, top: box.top - out, right: box.right + out, bottom: box.bottom + out };
      const missing = (bounds, x, y) => {
        const wide = x && bounds.right - bounds.left + SLACK > box.width ? Math.max(bounds.left - ring.left, ring.right - bounds.right) : 0;
        const high = y && bounds.bottom - bounds.top + SLACK > box.height ? Math.max(bounds.top - ring.top, ring.bottom - bounds.bottom) : 0;
        return Math.max(wide, high);
      };
      for (const { at, x, y } of clipping(node, true)) {
        const lost = missing(inside(at), x !== "visible", y !== "visible");
        if (lost > SLACK / 2) found.add(`${where(node)}: ${lost.toFixed(1)} px of its focus ring are cut by ${place(at)}`);
      }
      const lost = missing({ left: 0, top: 0, right: innerWidth, bottom: innerHeight }, true, true);
      if (lost > SLACK / 2) found.add(`${where(node)}: ${lost.toFixed(1)} px of its focus ring are out of the window`);
      const part = seen(node, box, true);
      const [x, y] = part ? [(part.left + part.right) / 2, (Math.max(0, part.top) + Math.min(innerHeight, part.bottom)) / 2] : [-1, -1];
      const top = document.elementFromPoint(x, y);
      if (!top || !(node.contains(top) || top.contains(node))) found.add(`${where(node)}: has the focus and is covered${top ? ` by ${place(layer(top) ?? top)}` : ""}`);
      const ground = painted(out > 0 ? node.parentElement : node, outlineColor);
      const least = Math.min(...ground.map(([one, other]) => ratio(one, other)));
      if (least < 3) found.add(`${where(node)}: contrast of its focus ring ${least.toFixed(2)}`);
    }
    document.activeElement?.blur();
    scrollTo(0, 0);
    return [...found];
  };

  let sizes = new Map();
  /** Remembers the size of every text, for `grown`. */
  const remember = () => {
    sizes = new Map(texts().map(({ parent }) => [parent, parseFloat(style(parent).fontSize)]));
  };
  /** Texts that are not larger although the user has asked for twice the size. */
  const grown = () => {
    const found = new Set();
    for (const { parent } of texts()) {
      const before = sizes.get(parent);
      if (before && !parent.closest("[aria-hidden=true]") && parseFloat(style(parent).fontSize) < 1.75 * before) found.add(`${place(parent)}: stays as small as it was`);
    }
    return [...found];
  };

  const checks = { begin, borders, contrast, cut, firstScreen, grown, order, overlaps, remember, rings, sideways, targets };
  const afresh = (check) => (...given) => {
    known = new Map();
    return check(...given);
  };
  return Object.fromEntries(Object.entries(checks).map(([name, check]) => [name, afresh(check)]));
})();
