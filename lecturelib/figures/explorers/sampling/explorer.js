const logits = kit.unpack(data.logits);
const count = data.tokens.length;
let dice = 12345;

const prompt = kit.choices("After", data.prompts.map(quote), 0, draw);
const temperature = kit.player("Temperature τ", {
  min: 0, max: data.temperatures.length - 1, value: data.start[0],
  show: function (index) { return "τ = " + data.temperatures[index]; },
}, draw);
const topK = kit.slider("Top-k", {
  min: 1, max: count, value: data.start[1], show: function (k) { return k === count ? "all " + count : "k = " + k; },
}, draw);
const topP = kit.slider("Top-p", {
  min: 0, max: data.shares.length - 1, value: data.start[2],
  show: function (index) { return "p = " + data.shares[index]; },
}, draw);
const place = kit.element("div", { class: "place" });
const facts = kit.facts();
const drawn = kit.element("p", { class: "drawn" });
const button = kit.element("button", { type: "button", onclick: function () { sample(40); } }, "Draw 40 times");

kit.root.append(prompt.node, temperature.node, topK.node, topP.node,
  kit.element("div", { class: "row" }, place, facts.node),
  kit.element("div", { class: "row" }, button, drawn));

function quote(text) { return "“" + text.replaceAll("\n", "⏎") + "”"; }

// Temperature first, then the k likeliest, then the fewest of those that together reach p; equal ones in order.
function look() {
  const tau = data.temperatures[temperature.value()];
  const scores = data.tokens.map(function (_, token) { return logits.at(prompt.value(), token) / tau; });
  const before = kit.softmax(scores);
  const order = data.tokens.map(function (_, token) { return token; }).sort(function (a, b) {
    return scores[b] - scores[a] || a - b;
  });
  const shortlist = order.slice(0, topK.value());
  const among = kit.softmax(shortlist.map(function (token) { return scores[token]; }));
  let sum = 0;
  const p = data.shares[topP.value()];
  const left = shortlist.filter(function (_, place) {
    const keep = place === 0 || p === 1 || sum < p;
    sum += among[place];
    return keep;
  });
  const mass = left.reduce(function (total, token) { return total + before[token]; }, 0);
  const after = new Array(count).fill(0);
  left.forEach(function (token) { after[token] = before[token] / mass; });
  return { tau: tau, p: p, before: before, after: after, order: order, left: left, mass: mass };
}

function entropy(values) {
  return values.reduce(function (sum, value) { return value > 0 ? sum - value * Math.log2(value) : sum; }, 0);
}

function rowOf(now, token) {
  function bar(value, name) {
    return kit.element("span", { class: "bar " + name, style: "width:" + (100 * value).toFixed(2) + "%" });
  }
  const cut = now.after[token] === 0;
  return kit.element("tr", { class: cut ? "cut" : "" },
    kit.element("th", { scope: "row" }, data.tokens[token]),
    kit.element("td", { class: "number" }, kit.number(now.before[token], 3)),
    kit.element("td", { class: "number drawn" }, cut ? "cut" : kit.number(now.after[token], 3)),
    kit.element("td", { class: "track", "aria-hidden": "true" }, bar(now.before[token], "before"),
      bar(now.after[token], "after")));
}

function draw() {
  const now = look();
  const head = kit.element("thead", {}, kit.element("tr", {},
    kit.element("th", { scope: "col" }, "next"), kit.element("th", { scope: "col" }, "before the cut"),
    kit.element("th", { scope: "col" }, "drawn with"), kit.element("td", { "aria-hidden": "true" })));
  place.replaceChildren(kit.element("table", { class: "bars" },
    kit.element("caption", {}, "Next after " + quote(data.prompts[prompt.value()])), head,
    kit.element("tbody", {}, ...now.order.slice(0, data.bars).map(function (token) { return rowOf(now, token); }))));
  const rows = [
    ["tokens left", now.left.length + " of " + count],
    ["probability kept", kit.number(now.mass, 3)],
    ["entropy before", kit.number(entropy(now.before), 2) + " bits"],
    ["entropy after", kit.number(entropy(now.after), 2) + " bits"],
  ];
  facts.set(rows);
  drawn.textContent = "";
  kit.announce("Temperature " + now.tau + ", " + now.left.length + " of " + count + " tokens left, which had " +
    kit.number(now.mass, 3) + " of the probability; the likeliest, " + data.tokens[now.order[0]] + ", is drawn with " +
    kit.number(now.after[now.order[0]], 3) + ".");
}

function sample(times) { // a small generator of its own, so that a page draws the same each time it is opened
  const now = look();
  const names = [];
  for (let i = 0; i < times; i++) {
    dice = (Math.imul(dice, 1664525) + 1013904223) >>> 0;
    let rest = dice / 4294967296;
    const found = now.left.find(function (token) { rest -= now.after[token]; return rest < 0; });
    names.push(data.tokens[found === undefined ? now.left[0] : found]);
  }
  drawn.textContent = names.join(" ");
}
draw();
