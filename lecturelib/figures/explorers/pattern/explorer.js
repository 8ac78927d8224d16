const unpacked = data.patterns.map(function (sizes) {
  return sizes.map(function (pattern) {
    const bytes = Uint8Array.from(atob(pattern.bits), function (c) { return c.charCodeAt(0); });
    return { rows: pattern.rows, columns: pattern.columns, on: function (i, j) {
      const place = i * pattern.columns + j;
      return (bytes[place >> 3] >> (7 - (place & 7))) & 1;
    } };
  });
});
function count(pattern, from, to) { // filled cells of some rows
  let filled = 0;
  for (let i = from; i < to; i++) for (let j = 0; j < pattern.columns; j++) filled += pattern.on(i, j);
  return filled;
}
const totals = unpacked.map(function (sizes) {
  return sizes.map(function (pattern) { return count(pattern, 0, pattern.rows); });
});
const words = function (n) { return n.toLocaleString("en-US"); };

const mixer = kit.choices("Mixer", data.names, data.first, draw);
const size = kit.player("N", { min: 0, max: data.sizes.length - 1, value: data.sizes.length - 1, show: function (at) {
  return data.sizes[at] + " tokens";
} }, draw);
const token = kit.slider("Token", { min: 1, max: data.sizes[0], value: Math.round(data.sizes[0] / 2) }, draw);
const box = kit.element("div", { class: "pattern" });
const list = kit.bars("Scores computed", ["mixer", "scores"], data.names, 0);
kit.root.append(mixer.node, size.node, token.node, kit.element("div", { class: "row" }, box, list.node));

function path(pattern, cell, pick) { // one path for all cells, in runs along the rows
  let d = "";
  for (let i = 0; i < pattern.rows; i++) {
    if (!pick(i)) continue;
    for (let j = 0; j < pattern.columns; j++) {
      if (!pattern.on(i, j)) continue;
      const start = j;
      while (j + 1 < pattern.columns && pattern.on(i, j + 1)) j++;
      d += "M" + start * cell + " " + i * cell + "h" + (j + 1 - start) * cell + "v" + cell + "h" + (start - j - 1) * cell + "z";
    }
  }
  return d;
}

function draw() {
  const which = mixer.value(), at = size.value(), n = data.sizes[at], asking = token.value() - 1;
  const pattern = unpacked[which][at], filled = totals[which][at];
  const cell = 288 / Math.max(...unpacked.map(function (sizes) { return Math.max(sizes[at].rows, sizes[at].columns); }));
  const width = pattern.columns * cell, height = pattern.rows * cell;
  const read = count(pattern, asking, asking + 1);
  const finding = data.names[which] + " with N = " + n + " computes " + words(filled) + " scores; all pairs are " +
    words(n * n) + ". Token " + (asking + 1) + " computes " + read + ". " + data.about[which];
  const word = function (x, y, text, more) { return kit.svg("text", { x: x, y: y, ...more }, text); };
  const far = (n - 0.5) * cell;
  const svg = kit.svg("svg", { role: "img", width: 328, height: 328, viewBox: "-38 -38 328 328", "aria-label": finding },
    word(0, -24, "what is asked →"), word(0, 32, "who asks →", { transform: "rotate(90)" }),
    word(-5, cell / 2 + 4, "1", { "text-anchor": "end" }), word(-5, far + 4, n, { "text-anchor": "end" }),
    word(cell / 2, -6, "1", { "text-anchor": "middle" }),
    kit.svg("rect", { class: "ground", width: width, height: height }),
    kit.svg("path", { class: "on", d: path(pattern, cell, function (i) { return i !== asking; }) }),
    kit.svg("path", { class: "asking", d: path(pattern, cell, function (i) { return i === asking; }) }));
  if (pattern.columns >= n) svg.append(word(far, -6, n, { "text-anchor": "middle" })); // fewer are mixtures of the keys
  if (pattern.columns > n) svg.append(kit.svg("line", { x1: n * cell, x2: n * cell, y1: 0, y2: height }));
  if (pattern.rows > n) svg.append(kit.svg("line", { x1: 0, x2: width, y1: n * cell, y2: n * cell }));
  box.replaceChildren(svg);
  list.set(totals.map(function (sizes) { return sizes[at]; }), { top: n * n,
    caption: "Scores computed with N = " + n });
  kit.announce(finding);
}
draw();
