const [rows, columns] = data.grid;
const [height, width] = data.size;
const [, layers, heads, tokens] = data.weights.shape;
const steps = new Uint16Array(Uint8Array.from(atob(data.weights.u2), function (c) { return c.charCodeAt(0); }).buffer);
let picture = 0, layer = data.start[0], head = data.start[1], byClass = true;

function weight(query, key) {
  return steps[(((picture * layers + layer) * heads + head) * tokens + query) * tokens + key] / 65535;
}
function patchName(patch) {
  return "row " + (Math.floor(patch / columns) + 1) + ", column " + (patch % columns + 1);
}

const pictureChoice = kit.choices("Picture", data.names, 0, function (index) { picture = index; draw(); });
const layerChoice = kit.choices("Layer", kit.counted(layers), layer, function (index) { layer = index; draw(); });
const headChoice = kit.choices("Head", kit.counted(heads), head, function (index) { head = index; draw(); });
const queryChoice = kit.choices("Query", ["class token", "a patch"], 0, function (index) { byClass = index === 0; draw(); });
const middle = Math.floor(rows / 2);
const rowSlider = kit.slider("Row", { min: 1, max: rows, value: middle + 1 }, pickPatch);
const columnSlider = kit.slider("Column", { min: 1, max: columns, value: Math.floor(columns / 2) + 1 }, pickPatch);
let picking = false;
function pickPatch() {
  if (picking) return;
  byClass = false;
  queryChoice.set(1);
}

const canvas = kit.element("canvas", { width: width, height: height, "aria-hidden": "true" });
const map = kit.matrix({ rows: kit.counted(rows), columns: kit.counted(columns), rowsName: "row", columnsName: "column",
  room: 330, onChoose: function (i, j) {
    picking = true;
    rowSlider.set(i + 1);
    columnSlider.set(j + 1);
    picking = false;
    queryChoice.set(1);
  } });
const under = kit.svg("foreignObject", { x: map.x(0), y: map.y(0), width: columns * map.cell, height: rows * map.cell }, canvas);
map.svg.prepend(under);
const mark = kit.svg("rect", { class: "mark", width: map.cell, height: map.cell, "pointer-events": "none" });
map.svg.append(mark);
const facts = kit.facts();
kit.root.append(
  pictureChoice.node, layerChoice.node, headChoice.node, queryChoice.node, rowSlider.node, columnSlider.node,
  kit.element("div", { class: "row" }, kit.element("div", { class: "stack" }, map.node), facts.node));

function paint() {
  const bytes = Uint8Array.from(atob(data.pictures[picture]), function (c) { return c.charCodeAt(0); });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[data.channels * i + (data.channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function draw() {
  paint();
  const chosen = (rowSlider.value() - 1) * columns + columnSlider.value() - 1;
  const query = byClass ? 0 : 1 + chosen;
  const found = Array.from({ length: rows * columns }, function (_, patch) { return weight(query, 1 + patch); });
  const top = Math.max(...found, 1e-6);
  const best = found.indexOf(Math.max(...found));
  map.paint(function (i, j) { return -found[i * columns + j]; }, function (i, j) {
    return patchName(i * columns + j) + ": " + kit.number(found[i * columns + j]);
  }, 1.2 * top);
  mark.setAttribute("visibility", byClass ? "hidden" : "visible");
  mark.setAttribute("x", map.x(chosen % columns));
  mark.setAttribute("y", map.y(Math.floor(chosen / columns)));
  const lines = [["on the class token", kit.number(weight(query, 0))], ["largest on a patch", kit.number(found[best])]];
  lines.push(["if all were equal", kit.number(1 / tokens)]);
  if (!byClass) lines.push(["on the patch itself", kit.number(found[chosen])]);
  facts.set(lines);
  const who = byClass ? "the class token" : "the patch in " + patchName(chosen);
  const words = "The " + data.names[picture] + ", layer " + (layer + 1) + ", head " + (head + 1) + ": " + who +
    " attends most to the patch in " + patchName(best) + " (" + kit.number(found[best]) + ").";
  map.describe(words);
  kit.announce(words);
}
draw();
