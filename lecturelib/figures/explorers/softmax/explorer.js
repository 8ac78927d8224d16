const scores = kit.unpack(data.scores);
const count = scores.shape[1];
const names = Array.from({ length: count }, function (_, index) { return "key " + (index + 1); });
const start = Math.max(0, data.widths.indexOf(64));

const width = kit.player("Width d", {
  min: 0, max: data.widths.length - 1, value: start, show: function (index) { return "d = " + data.widths[index]; },
}, draw);
const temperature = kit.slider("Temperature τ", {
  min: -20, max: 20, value: 0, show: function (step) { return "τ = " + kit.number(Math.pow(10, step / 20), 2); },
}, draw);
const scaling = kit.choices("Scale", data.scalings, 0, draw);
const table = kit.bars("Softmax of the scaled scores", ["key", "weight"], names, 3);
const facts = kit.facts();

kit.root.append(width.node, scaling.node, temperature.node, kit.element("div", { class: "row" }, table.node, facts.node));

function draw() {
  const d = data.widths[width.value()];
  const tau = Math.pow(10, temperature.value() / 20);
  const scale = [1, 1 / Math.sqrt(d), 1 / d][scaling.value()] / tau;
  const scaled = names.map(function (_, j) { return scores.at(width.value(), j) * scale; });
  const weights = kit.softmax(scaled);
  table.set(weights);

  const mean = scaled.reduce(function (a, b) { return a + b; }, 0) / count;
  const spread = Math.sqrt(scaled.reduce(function (sum, s) { return sum + (s - mean) * (s - mean); }, 0) / count);
  const entropy = weights.reduce(function (sum, w) { return w > 0 ? sum - w * Math.log2(w) : sum; }, 0);
  const slope = Math.max(...weights.map(function (w) { return w * (1 - w); }));
  const rows = [
    ["spread of the scores", kit.number(spread, 2)],
    ["largest weight", kit.number(Math.max(...weights), 3)],
    ["entropy, in bits", kit.number(entropy, 2) + " of " + kit.number(Math.log2(count), 2)],
    ["largest slope a(1 − a)", kit.number(slope, 3)],
  ];
  facts.set(rows);
  const best = weights.indexOf(Math.max(...weights));
  kit.announce("Width " + d + ", scale " + data.scalings[scaling.value()] + ", temperature " + kit.number(tau, 2) +
    ": " + names[best] + " takes " + kit.number(weights[best], 3) + " of the attention; the gradient can pass at most " +
    kit.number(slope, 3) + ".");
}
draw();
