let [example, word] = data.start;
let layer = data.layer, head = 0, region = null; // head 0 is the mean; a region is chosen or a word is
const MEAN = "mean";
let now, wordReads, regionReads, boxes, map, mark, wordChoice, regionChoice, picture;

const pairChoice = kit.choices("Pair", data.examples.map(function (e) { return e.name; }), example, function (index) {
  example = index;
  begin();
});
const layerChoice = kit.choices("Layer", kit.counted(data.depth[0]), layer, function (index) { layer = index; draw(); });
const headChoice = kit.choices("Head", [MEAN].concat(kit.counted(data.depth[1])), 0, function (index) { head = index; draw(); });
const stage = kit.element("div", { class: "stage" });
const facts = kit.facts();
kit.root.append(pairChoice.node, ...(data.depth[0] > 1 ? [layerChoice.node] : []),
  ...(data.depth[1] > 1 ? [headChoice.node] : []), stage);

function named(index) { return index + 1 + " " + now.regions[index]; }

// The weight of one reader on one that it reads, in the chosen layer; of all heads their mean.
function weight(reads, reader, read) {
  if (head) return reads.at(layer, head - 1, reader, read);
  let sum = 0;
  for (let h = 0; h < data.depth[1]; h++) sum += reads.at(layer, h, reader, read);
  return sum / data.depth[1];
}

function begin() { // another pair: its image, its boxes, its words
  now = data.examples[example];
  wordReads = kit.unpack(now.wordReads);
  regionReads = kit.unpack(now.regionReads);
  region = null;
  word = Math.min(word, now.words.length - 1);
  wordChoice = kit.choices("A word reads", now.words, word, function (index) { word = index; region = null; draw(); });
  regionChoice = kit.choices("A region reads", now.regions.map(function (_, index) { return named(index); }), 0,
    function (index) { region = index; draw(); });
  map = kit.matrix({ rows: now.words, columns: now.regions.map(function (_, index) { return named(index); }),
    rowsName: "words", columnsName: "regions", room: 380,
    onChoose: function (i, j) { if (region === null) wordChoice.set(i); else regionChoice.set(j); } });
  mark = kit.svg("rect", { class: "frame", visibility: "hidden", width: map.cell, y: map.y(0),
    height: now.words.length * map.cell });
  map.svg.append(mark);
  paint();
  stage.replaceChildren(wordChoice.node, regionChoice.node,
    kit.element("div", { class: "row" }, picture, kit.element("div", {}, map.node)), facts.node);
  draw();
}

function paint() {
  const [height, width] = now.size, side = Math.min(300, kit.root.clientWidth || 300), scale = side / width;
  const canvas = kit.element("canvas", { width: width, height: height, "aria-hidden": "true" });
  const bytes = Uint8Array.from(atob(now.picture), function (c) { return c.charCodeAt(0); });
  const context = canvas.getContext("2d", { willReadFrequently: true }), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[now.channels * i + (now.channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  picture = kit.svg("svg", { class: "picture", role: "img", width: side, height: scale * height,
    viewBox: "0 0 " + side + " " + scale * height },
    kit.svg("foreignObject", { x: 0, y: 0, width: side, height: scale * height }, canvas));
  const area = function (box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  boxes = now.boxes.map(function (box, index) {
    const title = kit.svg("title", {});
    const rect = kit.svg("rect", { class: "box", x: scale * box[0] + 1.5, y: scale * box[1] + 1.5,
      width: scale * (box[2] - box[0]) - 3, height: scale * (box[3] - box[1]) - 3,
      onclick: function () { regionChoice.set(index); } }, title);
    const tag = kit.svg("text", { class: "tag", x: scale * box[0] + 5, y: scale * box[1] + 14 }, String(index + 1));
    return { index: index, area: area(box), rect: rect, tag: tag, title: title };
  });
  boxes.slice().sort(function (a, b) { return b.area - a.area; }).forEach(function (one) { picture.append(one.rect, one.tag); });
}

function draw() {
  const reading = region === null;
  const value = reading ? function (i, j) { return weight(wordReads, i, j); } : function (i, j) { return weight(regionReads, j, i); };
  const read = (reading ? now.regions : now.words).map(function (_, index) { return reading ? value(word, index) : value(index, region); });
  const best = read.indexOf(Math.max(...read));
  boxes.forEach(function (one) {
    const share = reading ? read[one.index] : one.index === region ? 1 : 0;
    one.rect.setAttribute("class", "box" + (!reading && one.index === region ? " chosen" : ""));
    one.rect.setAttribute("stroke-width", (1 + 5 * share).toFixed(2));
    one.rect.setAttribute("stroke-opacity", (0.35 + 0.65 * share).toFixed(2));
    one.rect.setAttribute("fill-opacity", reading ? (0.45 * share).toFixed(3) : 0);
    one.tag.textContent = one.index + 1 + (reading && share >= 0.1 ? ": " + kit.number(share, 2) : "");
    one.title.textContent = named(one.index) + (reading ? ", " + kit.number(share, 2) : "");
  });
  map.paint(value, function (i, j) { return now.words[i] + ", " + named(j) + ": " + kit.number(value(i, j)); }, 1);
  map.svg.querySelector(".frame").setAttribute("visibility", "hidden");
  if (reading) map.choose(word);
  mark.setAttribute("visibility", reading ? "hidden" : "visible");
  mark.setAttribute("x", map.x(reading ? 0 : region));
  facts.set([["the model says", now.verdict]]);
  const where = "Layer " + (layer + 1) + ", " + (head ? "head " + head : "mean of the heads") + ": ";
  const words = reading
    ? where + "“" + now.words[word] + "” reads most of region " + named(best) + " (" + kit.number(read[best], 2) + ")."
    : where + "region " + named(region) + " reads most of “" + now.words[best] + "” (" + kit.number(read[best], 2) + ").";
  picture.setAttribute("aria-label", "Image with " + now.boxes.length + " numbered boxes. " + words);
  map.describe("Weights of " + (reading ? "words on regions. " : "regions on words. ") + words);
  kit.announce(words);
}
begin();
