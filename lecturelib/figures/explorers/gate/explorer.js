const values = kit.unpack(data.values);
const before = kit.unpack(data.before);
const [kinds, length, units] = values.shape;
const FORGET = 0, INPUT = 1, OUTPUT = 2, CANDIDATE = 3, MEMORY = 4, HIDDEN = 5;
let [unit, place] = data.start;
let kind = FORGET;

const kindChoice = kit.choices("Show", data.shown, kind, function (index) { kind = index; draw(); });
const unitSlider = kit.slider("Unit", {
  min: 1, max: units, value: unit + 1, show: function (value) { return value + " of " + units; },
}, function (value) { unit = value - 1; draw(); });
const text = kit.choices("Text", data.tokens, place, function (index) { place = index; draw(); });
text.node.classList.add("text");
const letters = text.node.querySelectorAll("button");
const gates = kit.bars("", ["gate", "open"], data.shown.slice(0, 3), 3);
const sums = kit.element("dl", { class: "sums" });

// All units over the whole text: a row for each unit, a column for each character. Tap or click to choose both.
const wide = 9, high = Math.max(3, Math.min(8, Math.floor(220 / units)));
const squares = [];
const map = kit.svg("svg", { class: "map", role: "img", width: length * wide + 2, height: units * high + 2,
  viewBox: "-1 -1 " + (length * wide + 2) + " " + (units * high + 2) });
for (let u = 0; u < units; u++) {
  for (let t = 0; t < length; t++) {
    const square = kit.svg("rect", { x: t * wide, y: u * high, width: wide, height: high,
      onclick: function () { unitSlider.set(u + 1); text.set(t); } });
    squares.push(square);
    map.append(square);
  }
}
const frame = kit.svg("rect", { class: "frame", fill: "none", stroke: "#d2691e", "stroke-width": 2,
  "pointer-events": "none" });
map.append(frame);
kit.root.append(kindChoice.node, unitSlider.node, text.node,
  kit.element("div", { class: "row" }, gates.node, sums),
  kit.element("div", { class: "scroll" }, map),
  kit.element("p", { class: "note" }, "rows: units, columns: characters; blue above zero, orange below"));

function colour(node, value, top, property) {
  const share = Math.min(1, Math.abs(value) / top);
  const [paint, strength] = value < 0 ? ["210, 105, 30", share] : ["47, 126, 216", share];
  if (property === "fill") {
    node.setAttribute("fill", "rgb(" + paint + ")");
    node.setAttribute("fill-opacity", (0.9 * strength).toFixed(3));
  } else node.style.backgroundColor = "rgba(" + paint + ", " + (0.75 * strength).toFixed(3) + ")";
}

function largest() {
  if (kind !== MEMORY) return 1;
  let top = 0;
  for (let t = 0; t < length; t++) for (let u = 0; u < units; u++) top = Math.max(top, Math.abs(values.at(MEMORY, t, u)));
  return top || 1;
}

function draw() {
  const top = largest();
  for (let t = 0; t < length; t++) {
    const value = values.at(kind, t, unit);
    colour(letters[t], value, top, "background");
    letters[t].title = data.shown[kind] + " = " + kit.number(value);
    for (let u = 0; u < units; u++) colour(squares[u * length + t], values.at(kind, t, u), top, "fill");
  }
  frame.setAttribute("x", 0);
  frame.setAttribute("y", unit * high);
  frame.setAttribute("width", length * wide);
  frame.setAttribute("height", high);

  const here = Array.from({ length: kinds }, function (_, k) { return values.at(k, place, unit); });
  const old = before.at(place, unit);
  const name = "“" + data.tokens[place] + "”";
  gates.set(here.slice(0, 3), { caption: "Unit " + (unit + 1) + " at " + name });
  const n = function (value) { return kit.number(value).replace("-", "−"); };
  const rows = [
    ["memory", "f · C + i · g = " + n(here[FORGET]) + " · " + n(old) + " + " + n(here[INPUT]) + " · " +
      n(here[CANDIDATE]) + " = " + n(here[MEMORY])],
    ["hidden", "o · tanh(C) = " + n(here[OUTPUT]) + " · " + n(Math.tanh(here[MEMORY])) + " = " + n(here[HIDDEN])],
  ];
  sums.replaceChildren(...rows.flatMap(function ([what, sum]) {
    return [kit.element("dt", {}, what), kit.element("dd", {}, sum)];
  }));
  map.setAttribute("aria-label", data.shown[kind] + " of " + units + " units over " + length +
    " characters; the table above gives unit " + (unit + 1) + " at " + name + " in numbers");
  kit.announce("Character " + (place + 1) + ", " + name + ": unit " + (unit + 1) + " keeps " + n(here[FORGET]) +
    " of its memory, writes " + n(here[INPUT]) + " of its candidate and shows " + n(here[OUTPUT]) + " of what it holds.");
}
draw();
