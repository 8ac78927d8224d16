const losses = kit.unpack(data.losses), sharpness = kit.unpack(data.sharpness), slices = kit.unpack(data.slices);
const WIDTH = 420, HEIGHT = 240, LEFT = 50, RIGHT = 12, TOP = 12, BOTTOM = 40, last = data.steps.length - 1;

const run = kit.choices("Run", data.names, 0, draw);
const at = kit.player("Step", {
  min: 0, max: last, value: Math.min(2, last), pause: 500, show: function (index) { return "step " + data.steps[index]; },
}, draw);
const facts = kit.facts();

const finite = Array.from(sharpness.values).filter(function (value) { return value > 0; });
const low = Math.floor(Math.log10(Math.min(...finite))), high = Math.ceil(Math.log10(Math.max(...finite)));
const tall = Math.max(...Array.from(slices.values).filter(Number.isFinite));
function across(share) { return LEFT + (WIDTH - LEFT - RIGHT) * share; }
function down(share) { return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share); }
function power(value) { return (Math.log10(Math.max(value, Math.pow(10, low))) - low) / Math.max(1, high - low); }
function frame(name, xName) {
  const plot = kit.svg("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, class: "plot", role: "img", "aria-label": name });
  plot.append(kit.svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: down(0), y2: down(0) }),
    kit.svg("text", { x: across(0.5), y: HEIGHT - 4, "text-anchor": "middle" }, xName));
  return plot;
}
function level(plot, share, name) {
  plot.append(kit.svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: down(share), y2: down(share) }),
    kit.svg("text", { x: LEFT - 6, y: down(share) + 4, "text-anchor": "end" }, name));
}
const curve = frame("sharpness along training", "step of training");
for (let exponent = low; exponent <= high; exponent++) {
  level(curve, (exponent - low) / Math.max(1, high - low), String(Math.pow(10, exponent)));
}
[0, last].forEach(function (index) {
  curve.append(kit.svg("text", { x: across(index / Math.max(1, last)), y: down(0) + 18, "text-anchor": index ? "end" : "start" },
    String(data.steps[index])));
});
const lines = data.names.map(function () {
  const line = kit.svg("polyline", {});
  curve.append(line);
  return line;
});
const dot = kit.svg("circle", { class: "dot", r: 5 });
curve.append(dot);
const valley = frame("the loss along the sharpest direction", "distance along the sharpest direction");
[0, 0.5, 1].forEach(function (share) { level(valley, share, kit.number(tall * share, 1)); });
[0, Math.floor(data.distances.length / 2), data.distances.length - 1].forEach(function (index, place) {
  const share = index / (data.distances.length - 1);
  valley.append(kit.svg("text", { x: across(share), y: down(0) + 18, "text-anchor": ["start", "middle", "end"][place] },
    kit.number(data.distances[index], 1)));
});
const ground = kit.svg("polyline", { class: "chosen" }), ball = kit.svg("circle", { class: "dot", r: 6 });
valley.append(ground, ball);
const titled = function (title, plot) {
  return kit.element("div", { class: "chart" }, kit.element("p", { class: "name" }, title), plot);
};
kit.root.append(run.node, at.node, kit.element("div", { class: "row" },
  titled("Sharpness along training", curve), titled("The loss along the sharpest direction", valley)), facts.node);

function draw() {
  const r = run.value(), k = at.value();
  lines.forEach(function (line, other) {
    line.setAttribute("class", other === r ? "chosen" : "other");
    line.setAttribute("points", data.steps.map(function (_, i) {
      return across(i / Math.max(1, last)).toFixed(1) + "," + down(power(sharpness.at(other, i))).toFixed(1);
    }).join(" "));
  });
  dot.setAttribute("cx", across(k / Math.max(1, last)));
  dot.setAttribute("cy", down(power(sharpness.at(r, k))));
  ground.setAttribute("points", data.distances.map(function (_, j) {
    const value = Math.min(tall, slices.at(r, k, j));
    return across(j / (data.distances.length - 1)).toFixed(1) + "," + down(value / tall).toFixed(1);
  }).join(" "));
  ball.setAttribute("cx", across(0.5));
  ball.setAttribute("cy", down(Math.min(tall, losses.at(r, k)) / tall));
  facts.set([
    ["loss", kit.number(losses.at(r, k), 3)],
    ["sharpness", sharpness.at(r, k).toPrecision(3)],
  ]);
  const said = data.names[r] + ", step " + data.steps[k] + ": the loss is " + kit.number(losses.at(r, k), 2) +
    " and its largest curvature " + sharpness.at(r, k).toPrecision(3) + ".";
  kit.announce(said);
}
draw();
