const [rows, columns] = data.grid;
const [height, width] = data.size;
let example = data.start[0], model = 0, word = data.start[1];

function caption() { return data.examples[example].captions[model]; }

const pictureChoice = kit.choices("Image", data.examples.map(function (e) { return e.name; }), example, function (index) {
  example = index;
  begin();
});
const modelChoice = kit.choices("Model", data.models, model, function (index) { model = index; begin(); });
const holder = kit.element("div", { class: "holder" });
const map = kit.matrix({ rows: kit.counted(rows), columns: kit.counted(columns), rowsName: "row", columnsName: "column",
  room: 330, onChoose: function () {} });
const canvas = kit.element("canvas", { width: width, height: height, "aria-hidden": "true" });
map.svg.prepend(kit.svg("foreignObject",
  { x: map.x(0), y: map.y(0), width: columns * map.cell, height: rows * map.cell }, canvas));
const marks = kit.svg("g", { "pointer-events": "none" });
map.svg.append(marks);
const facts = kit.facts();
kit.root.append(pictureChoice.node, modelChoice.node, holder,
  kit.element("div", { class: "row" }, kit.element("div", { class: "stack" }, map.node), facts.node));

let wordChoice = null, walk = null;
function begin() { // another caption: its words are the buttons
  const words = caption().words;
  word = Math.min(word, words.length - 1);
  wordChoice = kit.choices("Word", words, word, function (index) {
    word = index;
    if (walk.value() !== index + 1) walk.set(index + 1);
    draw();
  });
  walk = kit.player("Walk", { min: 1, max: words.length, value: word + 1, pause: 900,
    show: function (place) { return place + " of " + words.length; } }, function (place) {
    if (wordChoice.value() !== place - 1) wordChoice.set(place - 1);
  });
  holder.replaceChildren(wordChoice.node, walk.node);
  paint();
  draw();
}

function paint() {
  const bytes = Uint8Array.from(atob(data.examples[example].picture), function (c) { return c.charCodeAt(0); });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[data.channels * i + (data.channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function draw() {
  const now = caption(), weights = kit.unpack(now.weights), named = now.named[word];
  const found = Array.from({ length: rows * columns }, function (_, region) {
    return weights.at(word, Math.floor(region / columns), region % columns);
  });
  const top = Math.max(...found), best = found.indexOf(top);
  map.paint(function (i, j) { return -found[i * columns + j]; }, function (i, j) {
    return "row " + (i + 1) + ", column " + (j + 1) + ": " + kit.number(found[i * columns + j]);
  }, 1.2 * top);
  marks.replaceChildren(...(named || []).map(function (region) {
    return kit.svg("rect", { class: "mark", x: map.x(region % columns), y: map.y(Math.floor(region / columns)),
      width: map.cell, height: map.cell });
  }));
  const lines = [["largest weight", kit.number(top, 2)]];
  let words = "“" + now.words[word] + "”: looks most at row " + (Math.floor(best / columns) + 1) + ", column " +
    (best % columns + 1) + " (" + kit.number(top, 2) + ").";
  if (named) {
    const on = named.reduce(function (sum, region) { return sum + found[region]; }, 0);
    lines.push(["on the named thing", kit.number(on, 2)], ["by chance", kit.number(named.length / (rows * columns), 2)]);
    words += " On the thing it names: " + kit.number(on, 2) + ".";
  }
  facts.set(lines);
  map.describe(words);
  kit.announce(words);
}
begin();
