let [example, layer, token] = data.start;
let now, probabilities, squares, walk;
const shown = function (word) { return word.replace(/ /g, "␣").replace(/\n/g, "↵") || "∅"; };
const title = function (row) { return row === 0 ? "embedding" : row === 1 ? "1 layer" : row + " layers"; };

const exampleChoice = kit.choices("Text", data.examples.map(function (one) { return one.tokens.join(""); }), example,
  function (index) { example = index; token = data.examples[index].tokens.length - 1; build(); });
const stage = kit.element("div", { class: "stage" });
if (data.examples.length > 1) kit.root.append(exampleChoice.node);
kit.root.append(stage);

// Everything that depends on the text: the table of layers by tokens, and the choice of a token.
function build() {
  now = data.examples[example];
  probabilities = kit.unpack(now.probabilities);
  const last = now.best.length - 1;
  const asking = kit.choices("After", now.tokens.map(shown), token, function (index) { token = index; draw(); });
  walk = kit.player("Layer", { min: 0, max: last, value: layer, pause: 400, show: function (row) { return row + " of " + last; } },
    function (row) { layer = row; draw(); });
  const head = kit.element("tr", {}, kit.element("th", { scope: "col" }, "after"), ...now.tokens.map(function (word) {
    return kit.element("th", { scope: "col" }, shown(word));
  }));
  squares = [];
  const rows = now.best.map(function (row, i) {
    return kit.element("tr", {}, kit.element("th", { scope: "row" }, title(i)), ...row.map(function (best, j) {
      const square = kit.element("td", { onclick: function () { asking.set(j); walk.set(i); } }, shown(data.words[best[0]]));
      const ink = 62 * probabilities.at(i, j, 0);
      square.style.backgroundColor = "color-mix(in srgb, var(--blue) " + ink.toFixed(1) + "%, transparent)";
      squares.push(square);
      return square;
    }));
  });
  const place = kit.element("div", { class: "bars-place" });
  const scroll = kit.element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "likeliest next token by layer and token" },
    kit.element("table", { class: "lens" }, kit.element("thead", {}, head), kit.element("tbody", {}, ...rows)));
  stage.replaceChildren(asking.node, walk.node, kit.element("div", { class: "row" }, scroll, place));
  stage.place = place;
  stage.scroll = scroll;
  draw();
}

function draw() {
  squares.forEach(function (square, index) {
    const i = Math.floor(index / now.tokens.length), j = index % now.tokens.length;
    square.classList.toggle("chosen", i === layer && j === token);
  });
  const chosen = squares[layer * now.tokens.length + token];
  stage.scroll.scrollTop = chosen.offsetTop - stage.scroll.clientHeight / 2;
  const best = now.best[layer][token];
  const values = best.map(function (_, k) { return probabilities.at(layer, token, k); });
  const names = best.map(function (word) { return shown(data.words[word]); });
  const table = kit.bars("After " + title(layer), ["next token", "probability"], names, 3);
  table.set(values);
  stage.place.replaceChildren(table.node);
  kit.announce("After " + title(layer) + ", at “" + shown(now.tokens[token]) + "”: the likeliest next token is “" + names[0] +
    "” with " + kit.number(values[0], 3) + ".");
}
build();
