const symbols = Array.from(data.alphabet);
const highest = data.tables.length;
const orders = data.tables.map(function (_, index) { return String(index + 1); });
const possible = orders.map(function (_, index) { return Math.pow(symbols.length, index + 1); });
const seen = data.tables.map(function (table) {
  return Object.values(table).reduce(function (sum, packed) { return sum + read(packed).size; }, 0);
});
let dice = 12345;

const field = kit.element("input", {
  type: "text", class: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "none", value: data.text,
  oninput: draw,
});
const order = kit.choices("n", orders, data.n - 1, draw);
const strength = kit.slider("Add k", {
  min: 0, max: data.strengths.length - 1, value: data.k, show: function (index) { return "k = " + data.strengths[index]; },
}, draw);
const buttons = kit.element("div", { class: "options" },
  kit.element("button", { type: "button", onclick: function () { append(likeliest); } }, "Take the likeliest"),
  kit.element("button", { type: "button", onclick: function () { append(drawn); } }, "Draw one"),
  kit.element("button", { type: "button", onclick: function () { repeat(20); } }, "Draw 20"),
  kit.element("button", { type: "button", onclick: function () { field.value = field.value.slice(0, -1); draw(); } },
    "Delete one"));
const place = kit.element("div", { class: "place" });
const facts = kit.facts();

kit.root.append(
  kit.element("label", { class: "slider" }, kit.element("span", {}, "Text"), field),
  order.node, strength.node, buttons, kit.element("div", { class: "row" }, place, facts.node));

// "e120a31" -> e: 120, a: 31
function read(packed) {
  const counts = new Map();
  for (const found of (packed || "").matchAll(/(\D)(\d+)/gu)) counts.set(found[1], Number(found[2]));
  return counts;
}

function known() { // what was typed, in the letters the model knows
  return Array.from(field.value.toLowerCase().replace(/\s/g, " ")).filter(function (symbol) {
    return symbols.includes(symbol);
  });
}

function look() {
  const n = order.value() + 1;
  const text = known();
  const context = text.slice(Math.max(0, text.length - n + 1)).join("");
  const counts = read(data.tables[Array.from(context).length][context]);
  const k = data.strengths[strength.value()];
  const met = Array.from(counts.values()).reduce(function (a, b) { return a + b; }, 0);
  const total = met + k * symbols.length;
  const values = symbols.map(function (symbol) { return total ? ((counts.get(symbol) || 0) + k) / total : 0; });
  return { n: n, context: context, counts: counts, met: met, values: values, k: k };
}

function likeliest(values) { return values.indexOf(Math.max(...values)); }

function drawn(values) { // a small generator of its own, so that a page draws the same each time it is opened
  dice = (Math.imul(dice, 1664525) + 1013904223) >>> 0;
  let left = dice / 4294967296;
  for (let index = 0; index < values.length; index++) {
    left -= values[index];
    if (left < 0) return index;
  }
  return likeliest(values);
}

function append(choose) {
  const values = look().values;
  if (Math.max(...values) > 0) field.value += symbols[choose(values)];
  draw();
}

function repeat(times) {
  for (let i = 0; i < times; i++) {
    const values = look().values;
    if (Math.max(...values) > 0) field.value += symbols[drawn(values)];
  }
  draw();
}

function name(symbol) { return symbol === " " ? "␣" : symbol; }
function quote(text) { return "“" + Array.from(text).map(name).join("") + "”"; }

function draw() {
  const now = look();
  const ranked = symbols.map(function (_, index) { return index; }).sort(function (a, b) {
    return now.values[b] - now.values[a] || a - b;
  }).slice(0, data.bars);
  const caption = "Next character after " + (now.context ? quote(now.context) : "anything");
  const table = kit.bars(caption, ["next", "probability"], ranked.map(function (i) { return name(symbols[i]); }), 3);
  table.set(ranked.map(function (i) { return now.values[i]; }));
  place.replaceChildren(table.node);

  const bits = now.values.reduce(function (sum, p) { return p > 0 ? sum - p * Math.log2(p) : sum; }, 0);
  const rows = [
    ["context met", now.met.toLocaleString("en") + (now.met === 1 ? " time" : " times")],
    ["different followers", now.counts.size + " of " + symbols.length],
    ["surprise to expect", kit.number(bits, 2) + " bits"],
    ["cells for n = " + now.n, seen[now.n - 1].toLocaleString("en") + " of " + possible[now.n - 1].toLocaleString("en")],
  ];
  facts.set(rows);
  const best = ranked[0];
  const place_of = now.context ? "after " + quote(now.context) : "with no context";
  if (now.met === 0) {
    kit.announce("n = " + now.n + ": " + quote(now.context) + " was never seen, so counting knows nothing" +
      (now.k ? " and smoothing makes every character equally likely." : " and every probability is 0: add a k, or take a smaller n."));
  } else {
    kit.announce("n = " + now.n + ", " + place_of + ", met " + now.met.toLocaleString("en") + (now.met === 1 ? " time" : " times") +
      ": the likeliest next is " + quote(symbols[best]) + " with " + kit.number(now.values[best], 3) + ".");
  }
}
draw();
