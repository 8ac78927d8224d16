let [example, word] = data.start;
let model = 0;
let weights, gold, targets, table, squares, frame, matrix;

const exampleChoice = kit.choices("Example", data.examples.map(function (one) { return one.name; }), example,
  function (index) { example = index; word = 0; build(); });
const modelChoice = kit.choices("Weights of", data.models, model, function (index) { model = index; draw(); });
const stage = kit.element("div", { class: "stage" });
if (data.examples.length > 1) kit.root.append(exampleChoice.node);
if (data.models.length > 1) kit.root.append(modelChoice.node);
kit.root.append(stage);

function isGold(i, j) { return gold.has(i + " " + j); }

// Everything that depends on the example: the target words to move over, the table of the source, the whole map.
function build() {
  const now = data.examples[example];
  weights = kit.unpack(now.weights);
  gold = new Set((now.links || []).map(function (link) { return link[0] + " " + link[1]; }));
  targets = kit.choices("Write", now.target, word, function (index) { word = index; draw(); });
  targets.node.classList.add("targets");
  targets.node.querySelectorAll("button").forEach(function (button, index) {
    button.addEventListener("mouseenter", function () { targets.set(index); });
  });
  table = kit.bars("", ["source", "weight"], now.source, 3);
  stage.replaceChildren(targets.node, kit.element("div", { class: "row" }, table.node, map(now)));
  draw();
}

// Rows: target words, columns: source words. Ink is weight, a diamond is a gold link, the frame is the chosen word.
function map(now) {
  const rows = now.target.length, columns = now.source.length;
  const cell = Math.max(9, Math.min(22, Math.floor(330 / Math.max(rows, columns))));
  squares = [];
  matrix = kit.svg("svg", { class: "map", role: "img", width: columns * cell + 4, height: rows * cell + 4,
    viewBox: "-2 -2 " + (columns * cell + 4) + " " + (rows * cell + 4) });
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const title = kit.svg("title", {});
      const square = kit.svg("rect", { x: j * cell, y: i * cell, width: cell, height: cell, fill: "#2f7ed8",
        stroke: "currentColor", "stroke-opacity": 0.25, onclick: function () { targets.set(i); },
        onmouseenter: function () { targets.set(i); } }, title);
      squares.push({ square: square, title: title });
      matrix.append(square);
      if (isGold(i, j)) {
        const x = (j + 0.5) * cell, y = (i + 0.5) * cell, r = 0.26 * cell;
        const points = [[x, y - r], [x + r, y], [x, y + r], [x - r, y]].map(function (p) { return p.join(","); });
        matrix.append(kit.svg("polygon", { class: "gold", points: points.join(" "), "pointer-events": "none" }));
      }
    }
  }
  frame = kit.svg("rect", { class: "frame", x: 0, width: columns * cell, height: cell, fill: "none", stroke: "#d2691e",
    "stroke-width": 2.5, "pointer-events": "none" });
  matrix.append(frame);
  matrix.dataset.cell = cell;
  const note = "rows: target, columns: source" + (now.links ? "; ◆ a link in the reference" : "");
  return kit.element("div", { class: "side" }, matrix, kit.element("p", { class: "note" }, note));
}

function draw() {
  const now = data.examples[example];
  const name = "“" + now.target[word] + "”";
  const row = now.source.map(function (_, j) { return weights.at(model, word, j); });
  table.set(row, { caption: "To write " + name + ", " + data.models[model] + " looks at",
    top: Math.max(1, ...row) });
  table.node.querySelectorAll("tbody th").forEach(function (cell, j) {
    cell.textContent = now.source[j] + (isGold(word, j) ? " ◆" : "");
  });
  squares.forEach(function (entry, index) {
    const i = Math.floor(index / now.source.length), j = index % now.source.length;
    const weight = weights.at(model, i, j);
    entry.square.setAttribute("fill-opacity", (0.9 * Math.min(1, weight)).toFixed(3));
    entry.title.textContent = now.target[i] + " ← " + now.source[j] + ": " + kit.number(weight);
  });
  frame.setAttribute("y", word * matrix.dataset.cell);
  let best = 0;
  row.forEach(function (weight, j) { if (weight > row[best]) best = j; });
  let words = "To write " + name + ", " + data.models[model] + (row[best] > 0
    ? " looks most at “" + now.source[best] + "” (" + kit.number(row[best]) + ")." : " looks at nothing.");
  if (now.links) {
    const linked = now.source.filter(function (_, j) { return isGold(word, j); });
    words += linked.length ? " The reference links it to “" + linked.join("”, “") + "”." : " The reference links it to nothing.";
  }
  kit.announce(words);
  matrix.setAttribute("aria-label", "Alignment map of " + data.models[model] + ": " + now.target.length +
    " target words by " + now.source.length + " source words; the table beside it gives the row of " + name + " in numbers");
}
build();
