let [example, layer, head, query] = data.start;
let score = 0;
let bytes, scores, tokens, table, matrix;
const [layers, heads] = data.heads;
const count = function (size) { return Array.from({ length: size }, function (_, index) { return String(index); }); };

const exampleChoice = kit.choices("Text", data.examples.map(function (one) { return one.name; }), example,
  function (index) { example = index; query = Math.min(query, data.examples[index].tokens.length - 1); build(); });
const scoreChoice = kit.choices("Show", data.names, score, function (index) { score = index; draw(); });
const layerSlider = kit.slider("Layer", { min: 0, max: layers - 1, value: layer }, function (value) { layer = value; draw(); });
const headSlider = kit.slider("Head", { min: 0, max: heads - 1, value: head }, function (value) { head = value; draw(); });
const map = kit.matrix({ rows: count(layers), columns: count(heads), rowsName: "layer", columnsName: "head", room: 220,
  onChoose: function (i, j) { layerSlider.set(i); headSlider.set(j); } });
const mark = kit.svg("rect", { class: "mark", width: map.cell, height: map.cell });
map.svg.append(mark);
const stage = kit.element("div", { class: "stage" });
if (data.examples.length > 1) kit.root.append(exampleChoice.node);
if (data.names.length > 1) kit.root.append(scoreChoice.node);
kit.root.append(layerSlider.node, headSlider.node,
  kit.element("div", { class: "row" }, kit.element("div", { class: "side" }, map.node), stage));

function weight(i, j) { // lower triangles, row after row, a byte for each weight
  const length = tokens.length, size = length * (length + 1) / 2;
  return j > i ? 0 : bytes[(layer * heads + head) * size + i * (i + 1) / 2 + j] / 255;
}

// Everything that depends on the text: its tokens to ask from, the attention of the chosen head.
function build() {
  const now = data.examples[example];
  tokens = now.tokens;
  bytes = Uint8Array.from(atob(now.weights), function (c) { return c.charCodeAt(0); });
  scores = kit.unpack(now.scores);
  const asking = kit.choices("From", tokens, query, function (index) { query = index; draw(); });
  asking.node.classList.add("asking");
  table = kit.bars("", ["token", "weight"], tokens, 2);
  matrix = kit.matrix({ rows: tokens, columns: tokens, rowsName: "from", columnsName: "to", room: 370,
    onChoose: function (i) { asking.set(i); } });
  stage.replaceChildren(asking.node, kit.element("div", { class: "row" },
    kit.element("div", { class: "side" }, matrix.node), table.node));
  draw();
}

function draw() {
  let top = 0;
  for (let i = 0; i < layers; i++) for (let j = 0; j < heads; j++) top = Math.max(top, Math.abs(scores.at(score, i, j)));
  map.paint(function (i, j) { return scores.at(score, i, j); }, function (i, j) {
    return "layer " + i + ", head " + j + ": " + kit.number(scores.at(score, i, j), 2);
  }, top);
  map.choose(layer);
  mark.setAttribute("x", map.x(head));
  mark.setAttribute("y", map.y(layer));
  const row = tokens.map(function (_, j) { return weight(query, j); });
  const name = "“" + tokens[query] + "”";
  table.set(row, { caption: "What " + name + " looks at" });
  matrix.paint(weight, function (i, j) { return tokens[i] + " → " + tokens[j] + ": " + kit.number(weight(i, j), 2); });
  matrix.choose(query);
  const best = row.indexOf(Math.max(...row));
  const place = "Layer " + layer + ", head " + head;
  kit.announce(place + ", " + data.names[score] + ": " + data.what + " " + kit.number(scores.at(score, layer, head), 2) + ". From " +
    name + " it looks most at “" + tokens[best] + "” (" + kit.number(row[best], 2) + ").");
  map.describe("Map of " + layers + " layers by " + heads + " heads: " + data.names[score]);
  matrix.describe(place + ": attention of " + tokens.length + " tokens; the table beside it gives the row of " + name + " in numbers");
}
build();
