const logs = kit.unpack(data.logs); // [radius][inputs][distance], powers of ten
const factors = kit.unpack(data.factors); // [radius][inputs], the predicted factor for each step
const last = logs.shape[2] - 1;
const start = data.radii.reduce(function (best, radius, index) {
  return Math.abs(radius - 0.9) < Math.abs(data.radii[best] - 0.9) ? index : best;
}, 0);
const LOW = -20, HIGH = 12, WIDTH = 520, HEIGHT = 280, LEFT = 48, RIGHT = 12, TOP = 10, BOTTOM = 40;

const radius = kit.slider("Radius ρ", {
  min: 0, max: data.radii.length - 1, value: start, show: function (index) { return "ρ = " + kit.number(data.radii[index], 2); },
}, draw);
const inputs = kit.choices("Inputs", data.inputs, 0, draw);
const distance = kit.slider("Distance", {
  min: 0, max: last, value: Math.min(20, last), show: function (steps) { return steps + (steps === 1 ? " step" : " steps"); },
}, draw);
const facts = kit.facts();

function x(step) { return LEFT + (WIDTH - LEFT - RIGHT) * step / last; }
function y(power) {
  const inside = Math.max(LOW, Math.min(HIGH, power));
  return TOP + (HEIGHT - TOP - BOTTOM) * (HIGH - inside) / (HIGH - LOW);
}
function raised(power) {
  return "10" + String(power).replace(/[-0-9]/g, function (c) { return "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]; });
}
function small(value) {
  if (value >= 0.001 && value < 10000) return kit.number(value, value < 10 ? 3 : 0);
  const power = Math.floor(Math.log10(value));
  return kit.number(value / Math.pow(10, power), 1) + " · " + raised(power);
}

const measured = kit.svg("polyline", { class: "measured" });
const predicted = kit.svg("polyline", { class: "predicted" });
const dot = kit.svg("circle", { class: "dot", r: 5 });
const plot = kit.svg("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, class: "plot", role: "img" });
for (let power = LOW; power <= HIGH; power += 4) {
  plot.append(kit.svg("line", { class: power === 0 ? "axis" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(power), y2: y(power) }),
    kit.svg("text", { x: LEFT - 6, y: y(power) + 4, "text-anchor": "end" }, raised(power)));
}
for (let step = 0; step <= last; step += 10) {
  plot.append(kit.svg("text", { x: x(step), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, String(step)));
}
plot.append(kit.svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "steps back in time"),
  predicted, measured, dot);

const key = kit.element("p", { class: "key", "aria-hidden": "true" },
  kit.element("span", { class: "line solid" }), "gradient norm, measured ", kit.element("span", { class: "line dashed" }), "predicted");
kit.root.append(radius.node, inputs.node, distance.node,
  kit.element("div", { class: "row" }, kit.element("div", { class: "chart" }, plot, key), facts.node));

function draw() {
  const r = radius.value(), i = inputs.value(), k = distance.value();
  const factor = factors.at(r, i);
  const line = [], guess = [];
  for (let step = 0; step <= last; step++) {
    line.push(x(step).toFixed(1) + "," + y(logs.at(r, i, step)).toFixed(1));
    guess.push(x(step).toFixed(1) + "," + y(step * Math.log10(factor)).toFixed(1));
  }
  measured.setAttribute("points", line.join(" "));
  predicted.setAttribute("points", guess.join(" "));
  dot.setAttribute("cx", x(k));
  dot.setAttribute("cy", y(logs.at(r, i, k)));

  const norm = Math.pow(10, logs.at(r, i, k));
  const each = Math.pow(10, (logs.at(r, i, last) - logs.at(r, i, 0)) / last);
  const rows = [
    ["gradient " + k + (k === 1 ? " step" : " steps") + " back", small(norm)],
    ["factor for each step, measured", kit.number(each, 3)],
    ["factor for each step, predicted", kit.number(factor, 3)],
    ["ρ alone would give", kit.number(data.radii[r], 3)],
  ];
  facts.set(rows);
  const verdict = each < 0.99 ? "the gradient vanishes" : each > 1.01 ? "the gradient explodes" : "the gradient keeps its length";
  const said = "Radius " + kit.number(data.radii[r], 2) + ", " + data.inputs[i] + " inputs: " + verdict + ". After " + k +
    (k === 1 ? " step" : " steps") + " its length is " + small(norm) + "; each step multiplies it by " + kit.number(each, 3) + ".";
  plot.setAttribute("aria-label", said);
  kit.announce(said);
}
draw();
