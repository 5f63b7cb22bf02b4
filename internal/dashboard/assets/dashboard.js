// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Wires the pages: theme, pause, charts and the heat map of nodes. htmx loads the parts of pages.

const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const polled = "[hx-trigger*='every']";

// colour returns a colour of the style sheet in the present theme. Canvases need it as a value.
function colour(name) {
	const probe = document.createElement("span");
	probe.className = "probe c-" + name;
	document.body.append(probe);
	const value = getComputedStyle(probe).color;
	probe.remove();
	return value;
}

// --- Theme

const theme = byId("theme");
theme.hidden = false;
theme.value = root.dataset.theme || "";
theme.addEventListener("change", () => {
	if (theme.value) root.dataset.theme = theme.value;
	else delete root.dataset.theme;
	try {
		localStorage.setItem("livesched-theme", theme.value);
	} catch {
		// Storage is off: the choice holds for this page.
	}
	redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// --- Polls pause while the user wants that, and while nobody looks

let paused = false;
const pause = byId("pause");
pause.hidden = false;
pause.addEventListener("click", () => {
	paused = !paused;
	pause.setAttribute("aria-pressed", String(paused));
	pause.textContent = paused ? "Updates paused" : "Pause updates";
	if (!paused) refresh();
});

function refresh() {
	for (const element of document.querySelectorAll(polled)) htmx.trigger(element, "refresh");
}

document.addEventListener("visibilitychange", () => {
	if (!document.hidden && !paused) refresh();
});

document.addEventListener("htmx:beforeRequest", (event) => {
	const { elt } = event.detail;
	if (!elt.matches(polled)) return;
	const loads = elt.matches("[hx-trigger*='load']") && !elt.dataset.loaded;
	if (document.hidden || (paused && !loads)) event.preventDefault();
	else elt.dataset.loaded = "true";
});

// --- What the user sees when polls fail

const connection = byId("connection");
let since = new Date();

function lost(text) {
	connection.textContent = text + " The page shows the state of " + since.toLocaleTimeString() + ".";
	connection.hidden = false;
}

document.addEventListener("htmx:sendError", () => lost("livesched cannot be reached."));
document.addEventListener("htmx:timeout", () => lost("livesched does not answer."));
document.addEventListener("htmx:responseError", (event) => {
	const { status } = event.detail.xhr;
	lost(status === 401 ? "You are not signed in any more: load the page again." : `livesched answered with ${status}.`);
});
document.addEventListener("htmx:afterRequest", (event) => {
	if (!event.detail.successful) return;
	since = new Date();
	connection.hidden = true;
});

// --- Parts that were loaded again

// A poll keeps where the user is: the focus, also of elements without an id, how far the page and
// tables are scrolled, and what is unfolded. (While htmx swaps a part, it moves the elements that are
// preserved to the end of the document, and the browser may scroll along.)
const focusable = "a[href], summary, [tabindex='0']";
let kept = null;

document.addEventListener("htmx:beforeSwap", (event) => {
	const { elt, target: part } = event.detail;
	kept = null;
	if (!elt.matches(polled)) return;
	const focused = part.contains(document.activeElement) ? document.activeElement : null;
	kept = {
		id: part.id,
		scrolled: scrollY,
		tables: [...part.querySelectorAll(".scroll")].map((table) => table.scrollLeft),
		unfolded: [...part.querySelectorAll("details")].map((details) => details.open),
		focus: focused && [...part.querySelectorAll(focusable)].indexOf(focused),
		href: focused?.getAttribute("href"),
	};
});

document.addEventListener("htmx:afterSwap", (event) => {
	if (kept === null) return;
	const part = (kept.id && byId(kept.id)) || event.target;
	part.querySelectorAll(".scroll").forEach((table, i) => (table.scrollLeft = kept.tables[i] ?? 0));
	part.querySelectorAll("details").forEach((details, i) => (details.open = kept.unfolded[i] ?? false));
	if (kept.focus !== null && document.activeElement === document.body) {
		const all = [...part.querySelectorAll(focusable)];
		const same = (element) => element.getAttribute("href") === kept.href;
		const found = all[kept.focus] && same(all[kept.focus]) ? all[kept.focus] : kept.href && all.find(same);
		found?.focus({ preventScroll: true });
	}
	if (scrollY !== kept.scrolled) scrollTo(0, kept.scrolled);
});

document.addEventListener("htmx:afterSettle", () => {
	drawCharts();
	loadMap();
	trimDecisions();
});

// mostRows is how many decisions a page keeps.
const mostRows = 500;

function trimDecisions() {
	const table = byId("decisions");
	if (!table) return;
	for (let extra = table.rows.length - mostRows; extra > 0 && table.tBodies.length > 1; ) {
		const last = table.tBodies[table.tBodies.length - 1];
		const removed = Math.min(extra, last.rows.length);
		for (let i = 0; i < removed; i++) last.deleteRow(-1);
		if (last.rows.length === 0) last.remove();
		extra -= removed;
	}
}

// --- Charts

const charts = new Map();
const chartHeight = 150;
let shownChart = "";
let marks = [];

function drawCharts() {
	const part = byId("health");
	if (!part) return;
	byId("charts").hidden = !part.dataset.chart;
	if (!part.dataset.chart || part.dataset.chart === shownChart) return;
	shownChart = part.dataset.chart;
	const data = JSON.parse(shownChart);
	drawChart("chart-rates", data, [
		["bound", "c1", []], ["unschedulable", "c2", [6, 3]], ["failed", "c3", [2, 2]],
	]);
	drawChart("chart-pending", data, [
		["waiting", "c2", [6, 3]], ["backoff", "c3", [2, 2]], ["active", "c1", []], ["gated", "c4", [8, 2, 2, 2]],
	]);
	byId("key-until-bound").hidden = !data.untilBound;
	drawChart("chart-durations", data, [["attempt", "c1", []], ["untilBound", "c2", [6, 3]]]);
}

function drawChart(id, data, lines) {
	const columns = [data.t, ...lines.map(([name]) => data[name] ?? data.t.map(() => null))];
	marks = data.marks;
	let chart = charts.get(id);
	if (chart) {
		chart.setData(columns);
		return;
	}
	const parent = byId(id);
	const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
	chart = new uPlot({
		width: parent.clientWidth,
		height: chartHeight,
		legend: { show: false },
		cursor: { show: false },
		tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
		scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
		axes: [{ ...axis, size: 24, space: 70, values: (_, times, __, ___, every) => times.map((t) => clock(t, every)) }, { ...axis, size: 44, values: (_, numbers) => numbers.map(short) }],
		series: [{}, ...lines.map(([label, line, dash]) => ({ label, stroke: colour(line), width: 1.5, dash, points: { show: false } }))],
		hooks: { draw: [drawMarks] },
	}, columns, parent);
	charts.set(id, chart);
}

// clock returns the time of day in UTC, or the date at its beginning, for labels every so many seconds.
function clock(seconds, every) {
	const date = new Date(seconds * 1000);
	if (seconds % 86400 !== 0) return date.toISOString().slice(11, every < 60 ? 19 : 16);
	return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

const short = (n) => (n >= 10000 ? n / 1000 + "k" : String(n));

// drawMarks draws where a profile was reloaded, with the numbers of the list below the charts.
function drawMarks(chart) {
	const { ctx, bbox } = chart;
	const ratio = devicePixelRatio;
	ctx.save();
	ctx.strokeStyle = ctx.fillStyle = colour("mark");
	ctx.font = `${11 * ratio}px system-ui`;
	ctx.lineWidth = ratio;
	ctx.setLineDash([]);
	ctx.textAlign = "left";
	for (const { t, n } of marks) {
		const x = Math.round(chart.valToPos(t, "x", true));
		if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
		ctx.beginPath();
		ctx.moveTo(x, bbox.top);
		ctx.lineTo(x, bbox.top + bbox.height);
		ctx.stroke();
		ctx.fillText(String(n), x + 3 * ratio, bbox.top + 10 * ratio);
	}
	ctx.restore();
}

// --- Heat map: a cell for each node, by pool. One typed array has the state of all cells.

const shades = 6;
const stranded = 1, closed = 2;
const titleHeight = 18;
const map = { data: null, cells: new Uint8Array(0), pools: [], size: 0, columns: 1, at: -1, url: "" };

async function loadMap() {
	const part = byId("room");
	if (!part) return;
	const url = part.dataset.map;
	byId("map").hidden = !url;
	if (!url || part.dataset.drawn) return;
	part.dataset.drawn = "true";
	try {
		const response = await fetch(url);
		if (!response.ok) return; // the part beside the map says why
		map.data = await response.json();
	} catch {
		return;
	}
	const { percents, flags } = map.data;
	map.cells = new Uint8Array(percents.length);
	for (let i = 0; i < percents.length; i++) {
		const shade = percents[i] < 0 ? 7 : Math.min(Math.ceil((percents[i] * (shades - 1)) / 100), shades - 1);
		map.cells[i] = shade | (flags[i] << 4);
	}
	let first = 0;
	for (const pool of map.data.pools) { // no node of a bare pool has the resource
		pool.bare = percents.slice(first, first + pool.nodes).every((percent) => percent < 0);
		first += pool.nodes;
	}
	if (map.at >= percents.length) map.at = -1;
	drawMap();
}

// layOut chooses the largest cells with which all nodes fit into a height.
function layOut(width) {
	for (map.size = 22; map.size > 6; map.size--) {
		map.columns = Math.max(Math.floor(width / map.size), 1);
		let height = 0;
		for (const { nodes, bare } of map.data.pools) height += titleHeight + (bare ? 0 : Math.ceil(nodes / map.columns) * map.size);
		if (height <= 420) break;
	}
	map.columns = Math.max(Math.floor(width / map.size), 1);
	map.pools = [];
	let top = 0, first = 0;
	for (const { name, nodes, bare } of map.data.pools) {
		const rows = bare ? 0 : Math.ceil(nodes / map.columns);
		map.pools.push({ name, nodes, bare, first, top: top + titleHeight, bottom: top + titleHeight + rows * map.size });
		top += titleHeight + rows * map.size + 4;
		first += nodes;
	}
	return top;
}

function drawMap() {
	const canvas = byId("heatmap");
	if (!canvas || !map.data) return;
	const began = performance.now();
	const width = canvas.parentElement.clientWidth;
	const height = layOut(width);
	const ratio = devicePixelRatio || 1;
	canvas.width = width * ratio;
	canvas.height = height * ratio;
	canvas.style.height = height + "px";
	const ctx = canvas.getContext("2d");
	ctx.scale(ratio, ratio);
	const palette = [0, 1, 2, 3, 4, 5].map((i) => colour("s" + i));
	const text = colour("text"), line = colour("dim");
	const onDark = new Path2D(), onLight = new Path2D(), hollow = new Path2D();
	const hatches = palette.map((shade) => (isLight(shade) ? onLight : onDark));
	const inner = map.size - (map.size > 8 ? 2 : 1);
	ctx.font = "12px system-ui, sans-serif";
	for (const pool of map.pools) {
		ctx.fillStyle = text;
		const resource = map.data.resources[map.data.which[pool.first]];
		ctx.fillText(`${pool.name} (${pool.nodes})` + (pool.bare ? `: no ${resource}` : ""), 0, pool.top - 5);
		if (pool.bare) continue;
		for (let i = 0, x = 0, y = pool.top; i < pool.nodes; i++) {
			const cell = map.cells[pool.first + i];
			const flags = cell >> 4;
			if (flags & closed) hollow.rect(x + 0.5, y + 0.5, inner - 1, inner - 1);
			else if ((cell & 7) < shades) {
				ctx.fillStyle = palette[cell & 7];
				ctx.fillRect(x, y, inner, inner);
			} else hollow.rect(x + inner / 2 - 1, y + inner / 2 - 1, 1, 1);
			if (flags & stranded && (cell & 7) < shades) {
				const hatch = hatches[flags & closed ? 0 : cell & 7]; // a hollow cell is like the first shade
				hatch.moveTo(x, y + inner);
				hatch.lineTo(x + inner, y);
				if (inner > 9) {
					hatch.moveTo(x, y + inner / 2);
					hatch.lineTo(x + inner / 2, y);
					hatch.moveTo(x + inner / 2, y + inner);
					hatch.lineTo(x + inner, y + inner / 2);
				}
			}
			x += map.size;
			if ((i + 1) % map.columns === 0) {
				x = 0;
				y += map.size;
			}
		}
	}
	ctx.strokeStyle = line;
	ctx.stroke(hollow);
	ctx.lineWidth = inner > 9 ? 1.5 : 1;
	ctx.strokeStyle = colour("on-light");
	ctx.stroke(onLight);
	ctx.strokeStyle = colour("on-dark");
	ctx.stroke(onDark);
	if (map.at >= 0) outline(ctx, inner, text);
	canvas.dataset.milliseconds = (performance.now() - began).toFixed(1);
	canvas.dataset.cells = String(map.cells.length);
}

// isLight reports whether dark lines are easier to see on a colour than light ones.
function isLight(value) {
	const [red, green, blue] = value.match(/[\d.]+/g).map((part) => (part / 255) ** 2.2);
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2;
}

// outline draws the frame of the cell that the keys have reached.
function outline(ctx, inner, style) {
	const pool = poolOf(map.at);
	if (pool.bare) return;
	const i = map.at - pool.first;
	ctx.strokeStyle = style;
	ctx.lineWidth = 2;
	ctx.strokeRect((i % map.columns) * map.size - 1, pool.top + Math.floor(i / map.columns) * map.size - 1, inner + 2, inner + 2);
}

const poolOf = (cell) => map.pools.find((pool) => cell < pool.first + pool.nodes);

// cellAt returns the cell at a point, or -1.
function cellAt(x, y) {
	const pool = map.pools.find((p) => y >= p.top && y < p.bottom);
	const column = Math.floor(x / map.size);
	if (!pool || column < 0 || column >= map.columns) return -1;
	const i = Math.floor((y - pool.top) / map.size) * map.columns + column;
	return i < pool.nodes ? pool.first + i : -1;
}

// reached returns the cell that a key leads to: the next one that is drawn, or else the last one before.
function reached(cell, step) {
	const drawn = map.pools.filter((pool) => !pool.bare);
	if (drawn.length === 0) return -1;
	const next = Math.min(Math.max(cell, 0), map.cells.length - 1);
	if (!poolOf(next).bare) return next;
	const before = drawn.findLast((pool) => pool.first < next), after = drawn.find((pool) => pool.first > next);
	const pool = step > 0 ? after ?? before : before ?? after;
	return pool === after ? pool.first : pool.first + pool.nodes - 1;
}

function describe(cell) {
	const { names, percents, flags, which, resources } = map.data;
	const words = [`${names[cell]}, pool ${poolOf(cell).name}:`];
	const free = percents[cell] < 0 ? `no ${resources[which[cell]] || "resources"}` : `${percents[cell]} % of ${resources[which[cell]]} free`;
	words.push(free + (flags[cell] & stranded ? ", stranded" : "") + (flags[cell] & closed ? ", cordoned or not ready" : ""));
	byId("cell").textContent = words.join(" ");
}

function open(cell) {
	if (cell >= 0) location.assign(byId("heatmap").dataset.nodes + encodeURIComponent(map.data.names[cell]));
}

function wireMap() {
	const canvas = byId("heatmap");
	if (!canvas) return;
	const at = (event) => {
		const box = canvas.getBoundingClientRect();
		return map.data ? cellAt(event.clientX - box.left, event.clientY - box.top) : -1;
	};
	canvas.addEventListener("pointermove", (event) => {
		const cell = at(event);
		canvas.classList.toggle("points", cell >= 0);
		if (cell >= 0) describe(cell);
	});
	canvas.addEventListener("click", (event) => open(at(event)));
	canvas.addEventListener("keydown", (event) => {
		if (!map.data || map.cells.length === 0) return;
		if (event.key === "Enter") return open(map.at);
		const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: map.columns, ArrowUp: -map.columns, Home: -Infinity, End: Infinity };
		if (!(event.key in steps)) return;
		event.preventDefault();
		const step = steps[event.key];
		const began = map.at < 0 && Number.isFinite(step); // the first key leads to the first cell
		map.at = reached(began ? 0 : Math.max(map.at, 0) + step, step);
		if (map.at < 0) return;
		describe(map.at);
		drawMap();
	});
	let width = 0;
	new ResizeObserver(() => {
		if (canvas.parentElement.clientWidth === width) return;
		width = canvas.parentElement.clientWidth;
		drawMap();
		for (const [id, chart] of charts) chart.setSize({ width: byId(id).clientWidth, height: chartHeight });
	}).observe(canvas.closest(".cards"));
}

// redraw draws all canvases again, in another theme.
function redraw() {
	for (const chart of charts.values()) chart.destroy();
	charts.clear();
	shownChart = "";
	drawCharts();
	drawMap();
}

wireMap();
drawCharts();
loadMap();
