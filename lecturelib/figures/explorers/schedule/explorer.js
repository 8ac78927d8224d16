const WIDTH = 520, HEIGHT = 260, LEFT = 46, RIGHT = 12, TOP = 14, BOTTOM = 40;

const kind = kit.choices("Schedule", data.kinds, 2, draw);
const warmup = kit.slider("Warm-up", {
  min: 0, max: Math.floor(data.steps / 2), value: data.warmup, show: function (steps) { return steps + " steps"; },
}, draw);
const peak = kit.slider("Peak rate", {
  min: -4, max: -1, step: 0.5, value: -2.5, show: function (power) { return kit.number(Math.pow(10, power), 4); },
}, draw);
const at = kit.slider("Step", {
  min: 1, max: data.steps, value: Math.round(data.steps / 20), show: String,
}, draw);
const facts = kit.facts();

function rectified(step) {
  const power = Math.pow(data.beta2, step), longest = 2 / (1 - data.beta2) - 1;
  const rho = longest - 2 * step * power / (1 - power);
  if (rho <= 5) return 0;
  return Math.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho));
}
function factor(name, index, rise) { // steps count from 0, as in lecturelib.training
  if (name === "RAdam") return rectified(index + 1);
  if (name === "Noam") {
    const w = Math.max(1, rise), s = index + 1;
    return Math.min(1 / Math.sqrt(s), s * Math.pow(w, -1.5)) * Math.sqrt(w);
  }
  const up = rise ? Math.min(1, (index + 1) / rise) : 1;
  const done = Math.min(1, Math.max(0, (index + 1 - rise) / Math.max(1, data.steps - rise)));
  if (name === "linear") return Math.min(up, 1 - done);
  if (name === "cosine") return Math.min(up, 0.1 + 0.9 * (1 + Math.cos(Math.PI * done)) / 2);
  return up;
}
function x(index) { return LEFT + (WIDTH - LEFT - RIGHT) * index / (data.steps - 1); }
function y(share) { return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share); }

const line = kit.svg("polyline", { class: "rate" });
const dot = kit.svg("circle", { class: "dot", r: 5 });
const mark = kit.svg("line", { class: "mark", y1: TOP, y2: HEIGHT - BOTTOM });
const plot = kit.svg("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, class: "plot", role: "img" });
[[0, "0"], [0.5, "½"], [1, "peak"]].forEach(function ([share, name]) {
  plot.append(kit.svg("line", { class: share ? "grid" : "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }),
    kit.svg("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, name));
});
[1, Math.round(data.steps / 2), data.steps].forEach(function (step) {
  const end = step === data.steps ? "end" : step === 1 ? "start" : "middle";
  plot.append(kit.svg("text", { x: x(step - 1), y: HEIGHT - BOTTOM + 18, "text-anchor": end }, String(step)));
});
plot.append(kit.svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "step"), mark, line, dot);
kit.root.append(kind.node, warmup.node, peak.node, at.node,
  kit.element("div", { class: "row" }, kit.element("div", { class: "chart" }, plot), facts.node));

function draw() {
  const name = data.kinds[kind.value()], rise = warmup.value(), top = Math.pow(10, peak.value()), index = at.value() - 1;
  const shares = [];
  for (let i = 0; i < data.steps; i++) shares.push(factor(name, i, rise));
  line.setAttribute("points", shares.map(function (share, i) { return x(i).toFixed(1) + "," + y(share).toFixed(1); }).join(" "));
  dot.setAttribute("cx", x(index));
  dot.setAttribute("cy", y(shares[index]));
  const end = name === "RAdam" ? 0 : Math.max(0, rise - 1);
  mark.setAttribute("x1", x(end));
  mark.setAttribute("x2", x(end));
  mark.setAttribute("visibility", name === "RAdam" ? "hidden" : "visible");
  const mean = shares.reduce(function (a, b) { return a + b; }, 0) / data.steps;
  facts.set([
    ["rate at step " + (index + 1), (top * shares[index]).toPrecision(3)],
    ["share of the peak", kit.number(shares[index], 3)],
    ["mean over the run", kit.number(mean, 3) + " of the peak"],
  ]);
  const half = shares.findIndex(function (share) { return share > 0.5; }) + 1;
  const said = (name === "RAdam" ? "RAdam at a constant rate: momentum alone at first, then Adam's step times a factor"
    : name + " with " + rise + " steps of warm-up: the rate") + " passes half of its peak at step " + half +
    " and is " + kit.number(shares[data.steps - 1], 2) + " of it at the end.";
  plot.setAttribute("aria-label", said);
  kit.announce(said);
}
draw();
