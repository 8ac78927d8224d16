const WIDTH = 560, HEIGHT = 300, LEFT = 56, RIGHT = 14, TOP = 24, BOTTOM = 50;
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const DASHES = ["", "9 4", "2 4", "12 3 2 3"];
const WHAT = ["parameters", "tokens", "loss"];

function raised(power) { return "10" + String(power).replace("-", "⁻").replace(/\d/g, function (d) { return SUPERSCRIPTS[d]; }); }
function spoken(value) { // 1,300,000,000 is 1.3 billion
  const units = [[1e12, " trillion"], [1e9, " billion"], [1e6, " million"], [1e3, " thousand"]];
  for (const [size, name] of units) if (value >= size) return Number((value / size).toPrecision(3)).toLocaleString("en") + name;
  return Number(value.toPrecision(3)).toLocaleString("en");
}
function budgetWords(index) {
  const power = data.powers[index], whole = Math.floor(power), factor = Math.pow(10, power - whole);
  return (factor > 1.01 ? kit.number(factor, 1) + "·" : "") + raised(whole);
}

const budget = kit.slider("Budget", { min: 0, max: data.powers.length - 1, value: data.start, show: budgetWords }, draw);
const what = kit.choices("Show", WHAT, 0, redraw);
const plot = kit.svg("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, class: "plot", role: "img" });
const cells = data.laws.map(function () { return [0, 1, 2, 3].map(function () { return kit.element("td", {}); }); });
const table = kit.element("table", { class: "advice" },
  kit.element("thead", {}, kit.element("tr", {}, ...["law", "parameters", "tokens", "tokens per parameter", "loss"].map(function (name) {
    return kit.element("th", { scope: "col" }, name);
  }))),
  kit.element("tbody", {}, ...data.laws.map(function (law, index) {
    const key = kit.svg("svg", { class: "key", viewBox: "0 0 34 8", "aria-hidden": "true" },
      kit.svg("line", { class: "law law" + index, x1: 0, x2: 34, y1: 4, y2: 4, "stroke-dasharray": DASHES[index % 4] }));
    return kit.element("tr", {}, kit.element("th", { scope: "row" }, key, " " + law.name), ...cells[index]);
  })));
kit.root.append(budget.node, what.node, kit.element("div", { class: "chart" }, plot),
  kit.element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What each law advises" }, table));

const first = data.powers[0], last = data.powers[data.powers.length - 1];
function x(power) { return LEFT + (WIDTH - LEFT - RIGHT) * (power - first) / (last - first); }
let scale = null, dots = [], mark = null;

function height(value) { return scale.log ? Math.log10(value) : value; }
function y(value) { return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (height(value) - scale.low) / (scale.high - scale.low)); }

function redraw() {
  const shown = what.value(), log = shown < 2;
  const all = data.laws.flatMap(function (law) { return law.values.map(function (v) { return v[shown]; }); });
  const heights = all.filter(function (v) { return v > 0; }).map(function (v) { return log ? Math.log10(v) : v; });
  scale = { log: log, low: log ? Math.floor(Math.min(...heights)) : 0, high: log ? Math.ceil(Math.max(...heights)) : Math.min(8, Math.ceil(Math.max(...heights))) };
  plot.replaceChildren();
  const step = log ? 3 : 1;
  for (let tick = Math.ceil(scale.low / step) * step; tick <= scale.high; tick += step) {
    const at = y(log ? Math.pow(10, tick) : tick);
    plot.append(kit.svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
      kit.svg("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, log ? raised(tick) : String(tick)));
  }
  for (let power = Math.ceil(first / 4) * 4; power <= last; power += 4) {
    plot.append(kit.svg("text", { x: x(power), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle" }, raised(power)));
  }
  plot.append(kit.svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "operations of the whole training"));
  plot.append(kit.svg("text", { x: LEFT, y: 11 }, WHAT[shown]));
  mark = kit.svg("line", { class: "mark", y1: TOP, y2: HEIGHT - BOTTOM });
  plot.append(mark);
  dots = data.laws.map(function (law, index) {
    const points = law.values.map(function (v, i) { return [x(data.powers[i]), y(Math.max(v[shown], 1e-9))]; })
      .filter(function (p) { return p[1] >= TOP - 1 && p[1] <= HEIGHT - BOTTOM + 1; });
    plot.append(kit.svg("polyline", { class: "law law" + index, "stroke-dasharray": DASHES[index % 4],
      points: points.map(function (p) { return p[0].toFixed(1) + "," + p[1].toFixed(1); }).join(" ") }));
    const dot = kit.svg("circle", { class: "dot law" + index, r: 5 });
    plot.append(dot);
    return dot;
  });
  data.measured.forEach(function (point) {
    plot.append(kit.svg("circle", { class: "measured", r: 3.5, cx: x(Math.log10(point[0])), cy: y(point[1 + shown]) }));
  });
  draw();
}

function draw() {
  const index = budget.value(), shown = what.value(), at = x(data.powers[index]);
  mark.setAttribute("x1", at);
  mark.setAttribute("x2", at);
  const said = data.laws.map(function (law, number) {
    const [parameters, tokens, loss] = law.values[index];
    const place = y(Math.max(law.values[index][shown], 1e-9));
    dots[number].setAttribute("cx", at);
    dots[number].setAttribute("cy", place);
    dots[number].setAttribute("visibility", place < TOP - 1 || place > HEIGHT - BOTTOM + 1 ? "hidden" : "visible");
    [spoken(parameters), spoken(tokens), spoken(tokens / parameters), kit.number(loss, 2)].forEach(function (text, column) {
      cells[number][column].textContent = text;
    });
    const what = [spoken(parameters) + " parameters", spoken(tokens) + " tokens", "for a loss of " + kit.number(loss, 2)];
    return law.name + (shown === 2 ? " hopes " : " advises ") + what[shown];
  }).join("; ");
  const words = "With " + budgetWords(index) + " operations: " + said + ".";
  plot.setAttribute("aria-label", words);
  kit.announce(words);
}
redraw();
