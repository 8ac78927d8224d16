const [rows, columns] = data.grid, [height, width] = data.size, total = rows * columns;
let [example, drawn] = data.start;
let sample = 0, ids, chances, bytes;

const captionChoice = kit.choices("Caption", data.examples.map(function (e) { return e.caption; }), example,
  function (index) { example = index; begin(); });
const sampleChoice = kit.choices("Sample", kit.counted(data.samples), sample, function (index) { sample = index; begin(); });
const walk = kit.player("Tokens", { min: 0, max: total, value: drawn, pause: 160,
  show: function (count) { return count + " of " + total; } }, function (count) { drawn = count; draw(); });

const side = Math.min(26, Math.floor((kit.root.clientWidth || 300) / columns));
const grid = kit.svg("svg", { class: "ids", role: "img", width: side * columns, height: side * rows,
  viewBox: "0 0 " + side * columns + " " + side * rows });
const cells = Array.from({ length: total }, function (_, place) {
  const x = (place % columns) * side, y = Math.floor(place / columns) * side, title = kit.svg("title", {});
  const square = kit.svg("rect", { class: "cell", x: x, y: y, width: side, height: side,
    onclick: function () { walk.set(place + 1); } }, title);
  const number = kit.svg("text", { x: x + side / 2, y: y + side / 2 + 4, "text-anchor": "middle", "pointer-events": "none" });
  grid.append(square, number);
  return { square: square, number: number, title: title };
});
const frame = kit.svg("rect", { class: "now", width: side, height: side });
grid.append(frame);
const canvas = kit.element("canvas", { width: width, height: height, "aria-hidden": "true" });
canvas.style.width = side * columns + "px";
const facts = kit.facts();
kit.root.append(captionChoice.node);
if (data.samples > 1) kit.root.append(sampleChoice.node);
kit.root.append(walk.node, kit.element("div", { class: "row" },
  kit.element("div", {}, kit.element("p", { class: "note" }, "ids chosen so far"), grid),
  kit.element("div", {}, kit.element("p", { class: "note" }, "their regions of the image"), canvas), facts.node));

function begin() { // another caption or sample
  const one = data.examples[example];
  ids = one.ids[sample];
  chances = kit.unpack(one.chances[sample]);
  bytes = Uint8Array.from(atob(one.pictures[sample]), function (c) { return c.charCodeAt(0); });
  draw();
}

function draw() {
  cells.forEach(function (cell, place) {
    const there = place < drawn, colour = data.colours[ids[place]];
    const light = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] > 140;
    cell.square.setAttribute("fill", there ? "rgb(" + colour.join(",") + ")" : "none");
    cell.number.textContent = there ? ids[place] : "";
    cell.number.style.fill = light ? "#000" : "#fff";
    cell.title.textContent = there ? "id " + ids[place] + ", probability " + kit.number(chances.at(place), 2) : "not yet chosen";
  });
  const last = drawn - 1, row = Math.floor(last / columns), column = last % columns;
  frame.setAttribute("visibility", drawn ? "visible" : "hidden");
  frame.setAttribute("x", Math.max(0, column) * side);
  frame.setAttribute("y", Math.max(0, row) * side);
  paint();
  const caption = "“" + data.examples[example].caption + "”";
  let words = caption + ": nothing is drawn yet; the model has read the words.";
  if (drawn) {
    let bits = 0;
    for (let place = 0; place < drawn; place++) bits -= Math.log2(Math.max(1e-4, chances.at(place)));
    facts.set([["newest id", String(ids[last])], ["row, column", (row + 1) + ", " + (column + 1)],
      ["its probability", kit.number(chances.at(last), 2)], ["bits so far", kit.number(bits, 0)]]);
    words = caption + ": token " + drawn + " of " + total + " is id " + ids[last] + ", chosen with probability " +
      kit.number(chances.at(last), 2) + ".";
  } else facts.set([]);
  grid.setAttribute("aria-label", words);
  kit.announce(words);
}

function paint() { // only the regions whose tokens are there
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x, place = Math.floor(y * rows / height) * columns + Math.floor(x * columns / width);
      if (place >= drawn) continue;
      for (let c = 0; c < 3; c++) image.data[4 * at + c] = bytes[3 * at + c];
      image.data[4 * at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
begin();
