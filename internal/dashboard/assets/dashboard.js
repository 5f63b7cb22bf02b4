// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Wires the pages: theme, pause, charts and the heat map of nodes. htmx loads the parts of pages.

import { colour } from "./colours.js";
import { HeatMap } from "./heatmap.js";

const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const polled = "[hx-trigger*='every']";

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

// --- Heat maps: the room of nodes now, and in a simulation

const maps = []; // those of the page
let shownRoom = null; // the part whose map is shown

function newMap(canvas) {
	const map = new HeatMap(canvas, byId(canvas.dataset.cell));
	maps.push(map);
	return map;
}

async function loadMap() {
	const part = byId("room");
	if (!part || part === shownRoom) return;
	shownRoom = part;
	const url = part.dataset.map;
	byId("map").hidden = !url;
	if (!url) return;
	try {
		const response = await fetch(url);
		if (!response.ok) return; // the part beside the map says why
		room.show(await response.json());
	} catch {
		// The part shows that livesched cannot be reached when it is loaded again.
	}
}

// compare shows the maps of a simulation side by side, for the resource that the user chooses.
function compare() {
	const figure = byId("compared");
	if (!figure) return;
	const { maps: compared, ...nodes } = JSON.parse(figure.dataset.compared);
	const resource = byId("map-resource");
	const shown = compared.map((_, i) => newMap(byId("map-" + i)));
	const show = () => shown.forEach((map, i) => map.show({ ...nodes, ...compared[i][resource.value] }));
	resource.addEventListener("change", show);
	figure.hidden = false;
	show();
}

const room = byId("heatmap") && newMap(byId("heatmap"));

// Canvases follow the width of the page.
let width = 0;
const watched = document.querySelector(".cards, #compared");
if (watched) new ResizeObserver(() => {
	if (watched.clientWidth === width) return;
	width = watched.clientWidth;
	for (const map of maps) map.draw();
	for (const [id, chart] of charts) chart.setSize({ width: byId(id).clientWidth, height: chartHeight });
}).observe(watched);

for (const form of document.querySelectorAll("form[data-busy]")) {
	form.addEventListener("submit", () => {
		const button = form.querySelector("button");
		button.disabled = true;
		button.textContent = form.dataset.busy;
	});
}

// redraw draws all canvases again, in another theme.
function redraw() {
	for (const chart of charts.values()) chart.destroy();
	charts.clear();
	shownChart = "";
	drawCharts();
	for (const map of maps) map.draw();
}

drawCharts();
loadMap();
compare();
