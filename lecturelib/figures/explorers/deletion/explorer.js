let [example, count] = data.start;
let ranking = 0;
let weights, curves, words, amount, table;

const exampleChoice = kit.choices("Text", data.examples.map(function (one) { return one.name; }), example,
  function (index) { example = index; count = 0; build(); });
const rankingChoice = kit.choices("Delete by", data.rankings, ranking, function (index) { ranking = index; draw(); });
const stage = kit.element("div", { class: "stage" });
if (data.examples.length > 1) kit.root.append(exampleChoice.node);
if (data.rankings.length > 1) kit.root.append(rankingChoice.node);
kit.root.append(stage);

// Everything that depends on the text: its words in order, the slider, the table of what is left of the verdict.
function build() {
  const now = data.examples[example];
  const most = now.orders[0].length;
  weights = kit.unpack(now.weights);
  curves = kit.unpack(now.curves);
  const top = Math.max(1e-9, ...weights.values);
  const shares = kit.unpack(now.sentence_weights).values;
  const largest = Math.max(1e-9, ...shares);
  words = [];
  const frame = { class: "text", tabindex: "0", role: "group", "aria-label": "The text, to scroll in" };
  const text = kit.element("div", frame, ...now.sentences.map(function (sentence, number) {
    const share = kit.element("span", { class: "share", title: "weight of this sentence" },
      Math.round(100 * shares[number]) + " %");
    share.style.borderRightColor = tint(shares[number] / largest);
    const line = kit.element("p", {}, ...sentence.flatMap(function (word) {
      const node = kit.element("span", { class: "word" }, word);
      node.style.backgroundColor = tint(weights.values[words.length] / top);
      words.push(node);
      return [node, " "];
    }));
    return kit.element("div", { class: "sentence" }, share, line);
  }));
  amount = kit.player("Words deleted", { min: 0, max: most, value: count, pause: 400,
    show: function (value) { return value + " of " + words.length; } }, function (value) { count = value; draw(); });
  table = kit.bars("", ["deleted by", "probability"], data.rankings, 3);
  stage.replaceChildren(amount.node, table.node, text);
  draw();
}

function tint(part) { return "color-mix(in srgb, var(--blue) " + (85 * part).toFixed(1) + "%, transparent)"; }

function draw() {
  const now = data.examples[example];
  const gone = new Set(now.orders[ranking].slice(0, count));
  words.forEach(function (node, index) { node.classList.toggle("gone", gone.has(index)); });
  table.set(data.rankings.map(function (_, which) { return curves.at(which, count); }),
    { caption: "Probability of “" + now.verdict + "” without " + count + (count === 1 ? " word" : " words"), top: 1 });
  const before = curves.at(ranking, 0), after = curves.at(ranking, count);
  kit.announce("The whole text is called " + now.verdict + " with a probability of " + kit.number(before) + ". Without the "
    + count + " words that come first by " + data.rankings[ranking] + " it is " + kit.number(after)
    + (after < 0.5 ? ": the verdict has changed." : "."));
}
build();
