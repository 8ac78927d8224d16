// The shared half of every explorer. `mount` gives each host element a Shadow DOM and calls the explorer's own
// `render(data, kit)`. Everything in `kit` works by mouse, by touch and by keyboard, and has a name for screen readers.

function mount(identity, css, frame, data, render) {
  // A page may show the same explorer twice; each host is filled once.
  document.querySelectorAll('[data-explorer="' + identity + '"]:not([data-ready])').forEach(function (host) {
    host.dataset.ready = "yes";
    const shadow = host.attachShadow({ mode: "open" });
    const style = document.createElement("style");
    style.textContent = css;
    const card = document.createElement("div");
    card.className = "card";
    card.setAttribute("role", "group"); // no landmark: a page may hold several that ask the same question
    card.setAttribute("aria-label", frame.title);
    const part = function (tag, name, text) {
      const node = document.createElement(tag);
      node.className = name;
      node.textContent = text;
      return node;
    };
    const head = part("div", "head", "");
    head.append(part("p", "question", frame.title), part("p", "try", "Try: " + frame.hint));
    const root = part("div", "root", "");
    const live = part("p", "live", "");
    live.setAttribute("role", "status");
    card.append(head, root, live);
    shadow.append(style, card);
    render(data, makeKit(root, live));
  });
}

function makeKit(root, live) {
  const SVG = "http://www.w3.org/2000/svg";
  let names = 0;

  // element("button", {class: "key", onclick: f}, "text", otherElement)
  function fill(node, attributes, children) {
    Object.entries(attributes || {}).forEach(function ([name, value]) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
    });
    node.append(...children);
    return node;
  }
  function element(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }
  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
  }

  // A labelled slider; `show` turns its value into words. Returns {node, value(), set(v)}.
  function slider(label, options, onChange) {
    const show = options.show || String;
    const output = element("output", {});
    const input = element("input", {
      type: "range", min: options.min, max: options.max, step: options.step || 1, "aria-label": label,
    });
    function changed() {
      const words = show(Number(input.value));
      output.textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
    input.value = options.value;
    changed();
    input.addEventListener("input", function () { changed(); onChange(Number(input.value)); });
    return {
      node: element("label", { class: "slider" }, element("span", {}, label), input, output),
      value: function () { return Number(input.value); },
      set: function (value) { input.value = value; changed(); onChange(Number(input.value)); },
    };
  }

  // One of several, as buttons in a row: arrow keys, Home and End move. Returns {node, value(), set(index)}.
  function choices(label, options, start, onChange) {
    const id = "name" + names++;
    let chosen = start;
    const buttons = options.map(function (text, index) {
      return element("button", {
        type: "button", role: "radio", onclick: function () { set(index); },
        onkeydown: function (event) {
          const last = options.length - 1;
          const moves = {
            ArrowRight: chosen === last ? 0 : chosen + 1, ArrowDown: chosen === last ? 0 : chosen + 1,
            ArrowLeft: chosen === 0 ? last : chosen - 1, ArrowUp: chosen === 0 ? last : chosen - 1,
            Home: 0, End: last,
          };
          if (!(event.key in moves)) return;
          event.preventDefault();
          set(moves[event.key]);
          buttons[chosen].focus();
        },
      }, text);
    });
    function mark() {
      buttons.forEach(function (button, index) {
        button.setAttribute("aria-checked", index === chosen ? "true" : "false");
        button.tabIndex = index === chosen ? 0 : -1;
      });
    }
    function set(index) {
      chosen = index;
      mark();
      onChange(index);
    }
    mark();
    const name = element("span", { class: "name", id: id }, label);
    const group = element("div", { class: "options", role: "radiogroup", "aria-labelledby": id }, ...buttons);
    return {
      node: element("div", { class: "choices" }, name, group),
      value: function () { return chosen; },
      set: set,
    };
  }

  // A slider that can also walk by itself: a button plays it from where it stands, or from the start, and stops it.
  function player(label, options, onChange) {
    const inner = slider(label, options, function (value) { if (!walking) stop(); onChange(value); });
    const button = element("button", { type: "button", class: "play", onclick: toggle });
    const input = inner.node.querySelector("input");
    let timer = null, walking = false;
    function name(text, sign) { button.textContent = sign; button.setAttribute("aria-label", text + ": " + label); }
    function stop() { clearInterval(timer); timer = null; name("Play", "▶"); }
    function go(value) { walking = true; inner.set(value); walking = false; }
    function step() {
      const next = inner.value() + Number(input.step);
      if (next > Number(input.max)) stop(); else go(next);
    }
    function toggle() {
      if (timer) { stop(); return; }
      if (inner.value() >= Number(input.max)) go(Number(input.min));
      timer = setInterval(step, options.pause || 700);
      name("Stop", "■");
    }
    stop();
    inner.node = element("div", { class: "player" }, inner.node, button);
    inner.input = input;
    return inner;
  }

  // A grid of values with a name at every row and column: ink is the size, orange is below zero, a frame is the chosen
  // row. Overlays may be drawn on `svg` at x(column), y(row). Options: rows, columns (names), rowsName, columnsName,
  // onChoose(i, j), every (name only each so many), room (widest in pixels), tall (least height of a row in pixels).
  function matrix(options) {
    const rows = options.rows, columns = options.columns, every = options.every || 1;
    const longest = function (names) { return Math.max(1, ...names.map(function (n) { return Array.from(n).length; })); };
    const slant = longest(columns) > 2;
    let letters, left, top, right, cell;
    for (letters of [12, 9, 7]) { // where cells would be lower than their names, the names are cut
      left = 6 + 7.4 * Math.min(letters, longest(rows)) + (options.rowsName ? 18 : 0);
      top = (slant ? 10 + 6.2 * Math.min(letters, longest(columns)) : 18) + (options.columnsName ? 16 : 0);
      right = slant ? 3.4 * Math.min(letters, longest(columns)) : 2;
      const room = Math.min(options.room || 420, root.clientWidth || 420) - left - right;
      const high = Math.floor(520 / rows.length);
      cell = Math.max(3, Math.min(26, Math.floor(room / columns.length), high));
      if (cell >= Math.min(14, high)) break;
    }
    const tall = Math.max(cell, options.tall || 0);
    const width = left + columns.length * cell + right, height = top + rows.length * tall + 2;
    const picture = svg("svg", { class: "matrix", role: "img", width: width, height: height,
      viewBox: "0 0 " + width + " " + height });
    const x = function (j) { return left + j * cell; }, y = function (i) { return top + i * tall; };
    const cut = function (name) {
      return Array.from(name).length > letters ? Array.from(name).slice(0, letters - 1).join("") + "…" : name;
    };
    if (options.columnsName) picture.append(svg("text", { class: "axis", x: x(0), y: 12 }, options.columnsName + " →"));
    if (options.rowsName) picture.append(svg("text", { class: "axis", transform: "translate(12 " + y(0) + ") rotate(90)" }, options.rowsName + " →"));
    columns.forEach(function (name, j) {
      if (j % every) return;
      const at = x(j + 0.5), low = top - 5;
      picture.append(slant ? svg("text", { x: at, y: low, transform: "rotate(-60 " + at + " " + low + ")" }, cut(name))
        : svg("text", { x: at, y: low, "text-anchor": "middle" }, cut(name)));
    });
    const names = rows.map(function (name, i) {
      const label = svg("text", { x: left - 5, y: y(i + 0.5) + 4, "text-anchor": "end" }, i % every ? "" : cut(name));
      picture.append(label);
      return label;
    });
    const cells = [];
    rows.forEach(function (_, i) {
      columns.forEach(function (_, j) {
        const title = svg("title", {});
        const square = svg("rect", { class: "cell", x: x(j), y: y(i), width: cell, height: tall,
          onclick: function () { if (options.onChoose) options.onChoose(i, j); } }, title);
        cells.push({ square: square, title: title });
        picture.append(square);
      });
    });
    const frame = svg("rect", { class: "frame", x: x(0), width: columns.length * cell, height: tall, visibility: "hidden" });
    picture.append(frame);
    return {
      node: picture, svg: picture, x: x, y: y, cell: cell,
      paint: function (value, words, top) { // value(i, j), words(i, j) for the pointer, the value of full ink
        cells.forEach(function (entry, index) {
          const i = Math.floor(index / columns.length), j = index % columns.length, v = value(i, j);
          entry.square.setAttribute("fill", v < 0 ? "var(--warm)" : "var(--blue)");
          entry.square.setAttribute("fill-opacity", (0.95 * Math.min(1, Math.abs(v) / (top || 1))).toFixed(3));
          entry.title.textContent = words(i, j);
        });
      },
      choose: function (row) {
        frame.setAttribute("y", y(row));
        frame.setAttribute("visibility", "visible");
        names.forEach(function (label, i) { label.setAttribute("class", i === row ? "chosen" : ""); });
      },
      describe: function (text) { picture.setAttribute("aria-label", text); },
    };
  }

  // Names with their numbers. Returns {node, set([[name, value], ...])}.
  function facts() {
    const list = element("dl", { class: "facts" });
    return { node: list, set: function (rows) {
      list.replaceChildren(...rows.flatMap(function ([name, value]) {
        return [element("dt", {}, name), element("dd", {}, value)];
      }));
    } };
  }

  // "1", "2", … as names of layers, heads and the like.
  function counted(count) {
    return Array.from({ length: count }, function (_, index) { return String(index + 1); });
  }

  // A table of named bars, each with its number: length and digits say the same. Returns {node, set(values, options)}.
  function bars(caption, columnName, names, digits) {
    const title = element("caption", {}, caption);
    const rows = names.map(function (name) {
      const bar = element("span", { class: "bar" });
      const number = element("td", { class: "number" });
      const row = element("tr", {}, element("th", { scope: "row" }, name), number,
        element("td", { class: "track", "aria-hidden": "true" }, bar));
      return { row: row, bar: bar, number: number };
    });
    const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, columnName[0]),
      element("th", { scope: "col" }, columnName[1]), element("td", { "aria-hidden": "true" })));
    const table = element("table", { class: "bars" }, title, head,
      element("tbody", {}, ...rows.map(function (entry) { return entry.row; })));
    return {
      node: table,
      set: function (values, options) {
        const top = (options && options.top) || 1;
        if (options && options.caption) title.textContent = options.caption;
        let best = 0;
        for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
        rows.forEach(function (entry, index) {
          entry.bar.style.width = (100 * Math.max(0, values[index]) / top).toFixed(2) + "%";
          entry.number.textContent = number(values[index], digits);
          entry.row.className = index === best ? "best" : "";
        });
      },
    };
  }

  function number(value, digits) {
    return Number(value).toFixed(digits === undefined ? 3 : digits);
  }

  // Undo lecturelib.figures.explorers.explorer.pack: {shape, values: Float32Array, at(i, j, ...)}.
  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.f4), function (c) { return c.charCodeAt(0); });
    const values = new Float32Array(bytes.buffer);
    return {
      shape: packed.shape,
      values: values,
      at: function (...index) {
        return values[index.reduce(function (flat, i, axis) { return flat * packed.shape[axis] + i; }, 0)];
      },
    };
  }

  function softmax(scores) {
    const top = Math.max(...scores);
    const raised = scores.map(function (score) { return Math.exp(score - top); });
    const total = raised.reduce(function (a, b) { return a + b; }, 0);
    return raised.map(function (value) { return value / total; });
  }

  return {
    root: root, element: element, svg: svg, slider: slider, player: player, choices: choices, bars: bars,
    matrix: matrix, facts: facts, counted: counted,
    number: number, unpack: unpack, softmax: softmax,
    announce: function (text) { live.textContent = text; }, // shown, and read out by screen readers when it changes
  };
}
