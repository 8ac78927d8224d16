let [example, word] = data.start;
let model = 0;
let weights, gold, targets, table, matrix;

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
  targets = kit.choices(data.says[0], now.target, word, function (index) { word = index; walk.set(index + 1); });
  targets.node.classList.add("targets");
  targets.node.querySelectorAll("button").forEach(function (button, index) {
    button.addEventListener("mouseenter", function () { targets.set(index); });
  });
  const walk = kit.player("Word", { min: 1, max: now.target.length, value: word + 1, show: function (step) {
    return step + " of " + now.target.length;
  } }, function (step) { if (targets.value() !== step - 1) targets.set(step - 1); else draw(); });
  table = kit.bars("", ["source", "weight"], now.source, 3);
  stage.replaceChildren(targets.node, walk.node, kit.element("div", { class: "row" }, table.node, map(now)));
  draw();
}

// Rows: target words, columns: source words. A diamond is a link in the reference, the frame is the chosen word.
function map(now) {
  matrix = kit.matrix({ rows: now.target, columns: now.source, rowsName: "target", columnsName: "source", room: 460,
    onChoose: function (i) { targets.set(i); } });
  (now.links || []).forEach(function ([i, j]) {
    const x = matrix.x(j + 0.5), y = matrix.y(i + 0.5), r = 0.26 * matrix.cell;
    const points = [[x, y - r], [x + r, y], [x, y + r], [x - r, y]].map(function (p) { return p.join(","); });
    matrix.svg.append(kit.svg("polygon", { class: "gold", points: points.join(" "), "pointer-events": "none" }));
  });
  return kit.element("div", { class: "side" }, matrix.node,
    now.links ? kit.element("p", { class: "note" }, "◆ a link in the reference") : "");
}

function draw() {
  const now = data.examples[example];
  const name = "“" + now.target[word] + "”";
  const row = now.source.map(function (_, j) { return weights.at(model, word, j); });
  table.set(row, { caption: data.says[1] + " " + name + ", " + data.models[model] + " looks at",
    top: Math.max(1, ...row) });
  table.node.querySelectorAll("tbody th").forEach(function (cell, j) {
    cell.textContent = now.source[j] + (isGold(word, j) ? " ◆" : "");
  });
  matrix.paint(function (i, j) { return weights.at(model, i, j); }, function (i, j) {
    return now.target[i] + " ← " + now.source[j] + ": " + kit.number(weights.at(model, i, j));
  });
  matrix.choose(word);
  let best = 0;
  row.forEach(function (weight, j) { if (weight > row[best]) best = j; });
  let words = data.says[1] + " " + name + ", " + data.models[model] + (row[best] > 0
    ? " looks most at “" + now.source[best] + "” (" + kit.number(row[best]) + ")." : " looks at nothing.");
  if (now.links) {
    const linked = now.source.filter(function (_, j) { return isGold(word, j); });
    words += linked.length ? " The reference links it to “" + linked.join("”, “") + "”." : " The reference links it to nothing.";
  }
  kit.announce(words);
  matrix.describe("Alignment map of " + data.models[model] + ": " + now.target.length +
    " target words by " + now.source.length + " source words; the table beside it gives the row of " + name + " in numbers");
}
build();
