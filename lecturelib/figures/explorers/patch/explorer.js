const [rows, columns] = data.grid;
const [height, width] = data.size;
const [, layers, heads, tokens] = data.weights.shape;
const steps = new Uint16Array(Uint8Array.from(atob(data.weights.u2), function (c) { return c.charCodeAt(0); }).buffer);
let picture = 0, layer = data.start[0], head = data.start[1], byClass = true;

function counted(count) {
  return Array.from({ length: count }, function (_, index) { return String(index + 1); });
}
function weight(query, key) {
  return steps[(((picture * layers + layer) * heads + head) * tokens + query) * tokens + key] / 65535;
}
function patchName(patch) {
  return "row " + (Math.floor(patch / columns) + 1) + ", column " + (patch % columns + 1);
}

const pictureChoice = kit.choices("Picture", data.names, 0, function (index) { picture = index; draw(); });
const layerChoice = kit.choices("Layer", counted(layers), layer, function (index) { layer = index; draw(); });
const headChoice = kit.choices("Head", counted(heads), head, function (index) { head = index; draw(); });
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
const overlay = kit.svg("svg", { role: "img", viewBox: "0 0 " + columns + " " + rows, preserveAspectRatio: "none" });
const patches = Array.from({ length: rows * columns }, function (_, patch) {
  const title = kit.svg("title", {});
  const square = kit.svg("rect", {
    x: patch % columns, y: Math.floor(patch / columns), width: 1, height: 1, fill: "#ff7300",
    stroke: "#848484", "stroke-opacity": 0.5, "stroke-width": 0.02,
    onclick: function () {
      picking = true;
      rowSlider.set(Math.floor(patch / columns) + 1);
      columnSlider.set(patch % columns + 1);
      picking = false;
      queryChoice.set(1);
    },
  }, title);
  overlay.append(square);
  return { square: square, title: title };
});
const frame = kit.svg("rect", { width: 0.94, height: 0.94, fill: "none", stroke: "#2f7ed8", "stroke-width": 0.12,
  "pointer-events": "none" });
overlay.append(frame);
const facts = kit.element("dl", { class: "facts" });
kit.root.append(
  pictureChoice.node, kit.element("div", { class: "row" }, layerChoice.node, headChoice.node), queryChoice.node,
  kit.element("div", { class: "row" }, rowSlider.node, columnSlider.node),
  kit.element("div", { class: "row" }, kit.element("div", { class: "stack" }, canvas, overlay), facts));

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
  const found = patches.map(function (_, patch) { return weight(query, 1 + patch); });
  const top = Math.max(...found, 1e-6);
  let best = 0;
  patches.forEach(function (entry, patch) {
    if (found[patch] > found[best]) best = patch;
    entry.square.setAttribute("fill-opacity", (0.8 * found[patch] / top).toFixed(3));
    entry.title.textContent = patchName(patch) + ": " + kit.number(found[patch]);
  });
  frame.setAttribute("visibility", byClass ? "hidden" : "visible");
  frame.setAttribute("x", chosen % columns + 0.03);
  frame.setAttribute("y", Math.floor(chosen / columns) + 0.03);
  const lines = [["on the class token", kit.number(weight(query, 0))], ["largest on a patch", kit.number(found[best])]];
  lines.push(["if all were equal", kit.number(1 / tokens)]);
  if (!byClass) lines.push(["on the patch itself", kit.number(found[chosen])]);
  facts.replaceChildren(...lines.flatMap(function ([name, value]) {
    return [kit.element("dt", {}, name), kit.element("dd", {}, value)];
  }));
  const who = byClass ? "the class token" : "the patch in " + patchName(chosen);
  const words = "The " + data.names[picture] + ", layer " + (layer + 1) + ", head " + (head + 1) + ": " + who +
    " attends most to the patch in " + patchName(best) + " (" + kit.number(found[best]) + ").";
  overlay.setAttribute("aria-label", words);
  kit.announce(words);
}
draw();
