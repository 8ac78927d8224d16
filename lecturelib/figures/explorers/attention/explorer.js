const weights = kit.unpack(data.weights);
const [layers, heads, queries, keys] = weights.shape;
let [layer, head, query] = data.start;

function counted(count) {
  return Array.from({ length: count }, function (_, index) { return String(index + 1); });
}
const layerChoice = kit.choices("Layer", counted(layers), layer, function (index) { layer = index; draw(); });
const headChoice = kit.choices("Head", counted(heads), head, function (index) { head = index; draw(); });
const queryChoice = kit.choices("Query", data.queries, query, function (index) { query = index; draw(); });
const table = kit.bars("", ["key", "weight"], data.keys, 3);

// The whole matrix: more ink for more weight, a frame around the chosen query's row. Tap or click a row to choose it.
const cell = Math.max(6, Math.min(22, Math.floor(240 / Math.max(queries, keys))));
const squares = [];
const matrix = kit.svg("svg", { class: "matrix", role: "img", width: keys * cell + 2, height: queries * cell + 2,
  viewBox: "-1 -1 " + (keys * cell + 2) + " " + (queries * cell + 2) });
for (let i = 0; i < queries; i++) {
  for (let j = 0; j < keys; j++) {
    const square = kit.svg("rect", { x: j * cell, y: i * cell, width: cell, height: cell, fill: "#2f7ed8",
      stroke: "currentColor", "stroke-opacity": 0.25, onclick: function () { queryChoice.set(i); } });
    const title = kit.svg("title", {});
    square.append(title);
    squares.push({ square: square, title: title });
    matrix.append(square);
  }
}
const frame = kit.svg("rect", { x: 0, width: keys * cell, height: cell, fill: "none", stroke: "#d2691e",
  "stroke-width": 2.5, "pointer-events": "none" });
matrix.append(frame);
const side = kit.element("div", { class: "side" }, matrix,
  kit.element("p", { class: "note" }, "rows: queries, columns: keys"));

kit.root.append(
  kit.element("div", { class: "row" }, layerChoice.node, headChoice.node), queryChoice.node,
  kit.element("div", { class: "row" }, table.node, side));

function draw() {
  const row = data.keys.map(function (_, j) { return weights.at(layer, head, query, j); });
  const name = "“" + data.queries[query] + "”";
  table.set(row, { caption: "What " + name + " attends to" });
  for (let i = 0; i < queries; i++) {
    for (let j = 0; j < keys; j++) {
      const weight = weights.at(layer, head, i, j);
      const entry = squares[i * keys + j];
      entry.square.setAttribute("fill-opacity", (0.9 * weight).toFixed(3));
      entry.title.textContent = data.queries[i] + " → " + data.keys[j] + ": " + kit.number(weight);
    }
  }
  frame.setAttribute("y", query * cell);
  const order = row.map(function (_, j) { return j; }).sort(function (a, b) { return row[b] - row[a]; });
  const most = order.filter(function (j) { return row[j] >= 0.0005; }).slice(0, 2).map(function (j) {
    return "“" + data.keys[j] + "” (" + kit.number(row[j]) + ")";
  });
  const place = "Layer " + (layer + 1) + ", head " + (head + 1) + ": ";
  kit.announce(place + name + (most.length ? " attends most to " + most.join(", then ") + "." : " attends to nothing."));
  matrix.setAttribute("aria-label", place + "attention matrix of " + queries + " queries by " + keys +
    " keys; the table beside it gives the row of " + name + " in numbers");
}
draw();
