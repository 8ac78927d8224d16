const weights = kit.unpack(data.weights);
const [layers, heads, queries, keys] = weights.shape;
let [layer, head, query] = data.start;

const layerChoice = kit.choices("Layer", kit.counted(layers), layer, function (index) { layer = index; draw(); });
const headChoice = kit.choices("Head", kit.counted(heads), head, function (index) { head = index; draw(); });
const queryChoice = kit.choices("Query", data.queries, query, function (index) { query = index; draw(); });
const table = kit.bars("", ["key", "weight"], data.keys, 3);
const matrix = kit.matrix({ rows: data.queries, columns: data.keys, rowsName: "queries", columnsName: "keys", room: 340,
  onChoose: function (i) { queryChoice.set(i); } });

// Lines between words, as thick as their weight; only where queries and keys are the same words and fit in one line.
const CHAR = 8.6, GAP = 12, HIGH = 118;
const widths = data.keys.map(function (word) { return CHAR * Array.from(word).length + 18; });
const total = widths.reduce(function (a, b) { return a + b + GAP; }, GAP);
const isSelf = queries === keys && data.queries.every(function (word, i) { return word === data.keys[i]; });
const hasArcs = isSelf && total <= 1.35 * (kit.root.clientWidth || 0); // smaller type would not be readable
const arcs = kit.svg("svg", { class: "arcs", "aria-hidden": "true", viewBox: "0 0 " + total + " " + (HIGH + 58) });
const middles = [];
widths.reduce(function (at, width, j) { middles[j] = at + width / 2; return at + width + GAP; }, GAP);

kit.root.append(...(hasArcs ? [arcs] : []), layerChoice.node, headChoice.node, queryChoice.node,
  kit.element("div", { class: "row" }, table.node, kit.element("div", { class: "side" }, matrix.node)));

function drawArcs(row) {
  const best = row.indexOf(Math.max(...row));
  const lines = row.map(function (weight, j) {
    const from = middles[query], to = middles[j], rise = HIGH - Math.min(100, 18 + 0.3 * Math.abs(to - from));
    return j === query ? "" : kit.svg("path", { class: "arc", d: "M" + from + " " + HIGH + "C" + from + " " + rise + " " + to + " " +
      rise + " " + to + " " + HIGH, "stroke-width": (1 + 12 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + 1.3 * weight).toFixed(2) });
  });
  const words = data.keys.map(function (word, j) {
    const kind = j === query ? " asking" : j === best ? " best" : "";
    return kit.svg("g", { class: "chip" + kind, onclick: function () { queryChoice.set(j); } },
      kit.svg("rect", { x: middles[j] - widths[j] / 2, y: HIGH + 4, width: widths[j], height: 30, rx: 8 }),
      kit.svg("text", { class: "word", x: middles[j], y: HIGH + 24, "text-anchor": "middle" }, word),
      kit.svg("text", { x: middles[j], y: HIGH + 51, "text-anchor": "middle" }, kit.number(row[j], 2)));
  });
  arcs.replaceChildren(...lines, ...words);
}

function draw() {
  const row = data.keys.map(function (_, j) { return weights.at(layer, head, query, j); });
  const name = "“" + data.queries[query] + "”";
  table.set(row, { caption: "What " + name + " attends to" });
  matrix.paint(function (i, j) { return weights.at(layer, head, i, j); }, function (i, j) {
    return data.queries[i] + " → " + data.keys[j] + ": " + kit.number(weights.at(layer, head, i, j));
  });
  matrix.choose(query);
  if (hasArcs) drawArcs(row);
  const order = row.map(function (_, j) { return j; }).sort(function (a, b) { return row[b] - row[a]; });
  const most = order.filter(function (j) { return row[j] >= 0.0005; }).slice(0, 2).map(function (j) {
    return "“" + data.keys[j] + "” (" + kit.number(row[j]) + ")";
  });
  const place = "Layer " + (layer + 1) + ", head " + (head + 1) + ": ";
  kit.announce(place + name + (most.length ? " attends most to " + most.join(", then ") + "." : " attends to nothing."));
  matrix.describe(place + "attention matrix of " + queries + " queries by " + keys +
    " keys; the table beside it gives the row of " + name + " in numbers");
}
draw();
