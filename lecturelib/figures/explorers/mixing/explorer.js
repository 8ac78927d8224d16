const [height, width] = data.size;
const channels = data.channels;
const pictures = data.pictures.map(function (text) {
  return Uint8Array.from(atob(text), function (c) { return c.charCodeAt(0); });
});
const keptByBox = kit.unpack(data.kept);
const [first, second] = data.labels;

const kind = kit.choices("Mix by", data.kinds, 0, draw);
const share = kit.slider("λ", {
  min: 0, max: data.steps, value: Math.round(0.7 * data.steps),
  show: function (step) { return "λ = " + kit.number(step / data.steps, 2); },
}, draw);
const smoothing = kit.choices("Label smoothing", data.smoothings.map(String), 0, draw);
const canvases = ["first", "mixed", "second"].map(function (name) {
  return kit.element("canvas", { width: width, height: height, role: "img", class: name });
});
const captions = canvases.map(function () { return kit.element("figcaption", {}); });
const gallery = kit.element("div", { class: "row" }, ...canvases.map(function (canvas, index) {
  return kit.element("figure", { class: "small" }, canvas, captions[index]);
}));
const table = kit.bars("Label of the mixed picture", ["class", "mass"], data.classes, 3);
kit.root.append(kind.node, share.node, smoothing.node, gallery, table.node);

function paint(canvas, pixel) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixel(i, channels * i + (channels === 3 ? c : 0));
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function draw() {
  const step = share.value();
  const byBlend = kind.value() === 0;
  const lambda = step / data.steps;
  const keep = byBlend ? lambda : keptByBox.at(step);
  const [top, bottom, left, right] = data.boxes[step];
  paint(canvases[0], function (_, at) { return pictures[0][at]; });
  paint(canvases[2], function (_, at) { return pictures[1][at]; });
  paint(canvases[1], function (i, at) {
    if (byBlend) return Math.round(lambda * pictures[0][at] + (1 - lambda) * pictures[1][at]);
    const row = Math.floor(i / width), column = i % width;
    return pictures[row >= top && row < bottom && column >= left && column < right ? 1 : 0][at];
  });
  const smooth = data.smoothings[smoothing.value()];
  const mass = data.classes.map(function (_, label) {
    const hard = (label === first ? keep : 0) + (label === second ? 1 - keep : 0);
    return (1 - smooth) * hard + smooth / data.classes.length;
  });
  table.set(mass);
  const names = [data.classes[first], "mixed", data.classes[second]];
  captions.forEach(function (caption, index) { caption.textContent = names[index]; });
  canvases[0].setAttribute("aria-label", "the first picture: " + names[0]);
  canvases[2].setAttribute("aria-label", "the second picture: " + names[2]);
  const words = data.kinds[kind.value()] + " at λ = " + kit.number(lambda, 2) + ": " + kit.number(keep) + " " +
    names[0] + " and " + kit.number(1 - keep) + " " + names[2] + (smooth ? ", before smoothing by " + smooth : "") + ".";
  canvases[1].setAttribute("aria-label", words);
  kit.announce(words);
}
draw();
