const [height, width] = data.size;
const channels = data.channels;
const count = channels * height * width;
function bytes(text) {
  return Uint8Array.from(atob(text), function (c) { return c.charCodeAt(0); });
}
const original = bytes(data.original);
const views = data.views.map(function (view) { return bytes(view.pixels); });
const most = Math.max(...data.views.map(function (view) { return view.draws; }));
let chosen = data.start, strength = 0;

const options = data.views.map(function (view) { return view.name; });
const viewChoice = kit.choices("Augmentation", options, chosen, function (index) {
  chosen = index;
  rebuild();
});
const holder = kit.element("div", {});
let strengthChoice = null;
function figure(name) {
  const canvas = kit.element("canvas", { width: width, height: height, role: "img" });
  const caption = kit.element("figcaption", {});
  return { canvas: canvas, caption: caption, node: kit.element("figure", { class: "small " + name }, canvas, caption) };
}
const before = figure("before");
const after = Array.from({ length: most }, function () { return figure("after"); });
kit.root.append(viewChoice.node, holder, kit.element("div", { class: "row" }, before.node,
  ...after.map(function (entry) { return entry.node; })));

function paint(entry, pixels, offset) {
  const context = entry.canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[offset + channels * i + (channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function rebuild() {
  const view = data.views[chosen];
  const same = view.strengths.findIndex(function (name) { return name === "level +1"; });
  strength = same >= 0 ? same : view.strengths.length - 1;
  strengthChoice = kit.choices("Strength", view.strengths, strength, function (index) { strength = index; draw(); });
  holder.replaceChildren(strengthChoice.node);
  draw();
}

function draw() {
  const view = data.views[chosen];
  paint(before, original, 0);
  before.caption.textContent = "before";
  before.canvas.setAttribute("aria-label", "a " + data.name + " as it is");
  let total = 0;
  after.forEach(function (entry, index) {
    const shown = index < view.draws;
    entry.node.hidden = !shown;
    if (!shown) return;
    const offset = (strength * view.draws + index) * count;
    paint(entry, views[chosen], offset);
    let change = 0;
    for (let i = 0; i < count; i++) change += Math.abs(views[chosen][offset + i] - original[i]);
    change /= 255 * count;
    total += change / view.draws;
    entry.caption.textContent = "change " + kit.number(change);
    entry.canvas.setAttribute("aria-label", "after " + view.name + ", " + view.strengths[strength] + ": changed by " +
      kit.number(change) + " a pixel");
  });
  kit.announce(view.name + ", " + view.strengths[strength] + ": pixels change by " + kit.number(total) +
    " of the range on average" + (view.draws > 1 ? ", over " + view.draws + " draws." : "."));
}
rebuild();
