// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Draws the room of nodes: a cell for each node, by pool.

import { colour, isLight } from "./colours.js";

const shades = 6;
const stranded = 1, closed = 2;
const titleHeight = 18, mostHeight = 420;

// HeatMap draws on a canvas, and describes the cell that the pointer or the keys have reached in an
// element beside it.
export class HeatMap {
	#canvas;
	#cell;
	#data = null;
	#shades = new Uint8Array(0); // of all cells
	#pools = []; // where they are drawn
	#size = 0; // of a cell
	#columns = 1;
	#at = -1; // the cell that the keys have reached

	constructor(canvas, cell) {
		this.#canvas = canvas;
		this.#cell = cell;
		this.#listen();
	}

	// show draws other data: the names, percents, flags and resources of the cells, by pool.
	show(data) {
		this.#data = data;
		const { percents } = data;
		this.#shades = Uint8Array.from(percents, (p) => (p < 0 ? shades : Math.min(Math.ceil((p * (shades - 1)) / 100), shades - 1)));
		if (this.#at >= percents.length) this.#at = -1;
		this.draw();
	}

	draw() {
		if (!this.#data) return;
		const began = performance.now();
		const canvas = this.#canvas;
		const width = canvas.parentElement.clientWidth;
		const height = this.#layOut(width);
		const ratio = devicePixelRatio || 1;
		canvas.width = width * ratio;
		canvas.height = height * ratio;
		canvas.style.height = height + "px";
		const ctx = canvas.getContext("2d");
		ctx.scale(ratio, ratio);
		this.#paint(ctx);
		canvas.dataset.milliseconds = (performance.now() - began).toFixed(1);
		canvas.dataset.cells = String(this.#shades.length);
	}

	// #layOut chooses the largest cells with which all nodes fit into the height. No node of a bare
	// pool has the resource.
	#layOut(width) {
		const { percents } = this.#data;
		let first = 0;
		this.#pools = this.#data.pools.map(({ name, nodes }) => {
			const bare = percents.slice(first, first + nodes).every((percent) => percent < 0);
			first += nodes;
			return { name, nodes, bare, first: first - nodes };
		});
		const rows = ({ nodes, bare }) => (bare ? 0 : Math.ceil(nodes / this.#columns));
		for (this.#size = 22; ; this.#size--) {
			this.#columns = Math.max(Math.floor(width / this.#size), 1);
			const height = this.#pools.reduce((sum, pool) => sum + titleHeight + rows(pool) * this.#size, 0);
			if (height <= mostHeight || this.#size === 6) break;
		}
		let top = 0;
		for (const pool of this.#pools) {
			pool.top = top + titleHeight;
			pool.bottom = pool.top + rows(pool) * this.#size;
			top = pool.bottom + 4;
		}
		return top;
	}

	#paint(ctx) {
		const palette = [0, 1, 2, 3, 4, 5].map((i) => colour("s" + i));
		const text = colour("text"), line = colour("dim");
		const lines = { dark: new Path2D(), light: new Path2D(), hollow: new Path2D() };
		const hatches = palette.map((shade) => (isLight(shade) ? lines.light : lines.dark));
		const inner = this.#size - (this.#size > 8 ? 2 : 1);
		ctx.font = "12px system-ui, sans-serif";
		for (const pool of this.#pools) {
			ctx.fillStyle = text;
			ctx.fillText(`${pool.name} (${pool.nodes})` + (pool.bare ? `: no ${this.#resource(pool.first)}` : ""), 0, pool.top - 5);
			for (let i = 0; i < (pool.bare ? 0 : pool.nodes); i++) {
				const x = (i % this.#columns) * this.#size, y = pool.top + Math.floor(i / this.#columns) * this.#size;
				this.#paintCell(ctx, pool.first + i, x, y, inner, palette, hatches, lines.hollow);
			}
		}
		ctx.strokeStyle = line;
		ctx.stroke(lines.hollow);
		ctx.lineWidth = inner > 9 ? 1.5 : 1;
		ctx.strokeStyle = colour("on-light");
		ctx.stroke(lines.light);
		ctx.strokeStyle = colour("on-dark");
		ctx.stroke(lines.dark);
		if (this.#at >= 0) this.#outline(ctx, inner, text);
	}

	#paintCell(ctx, cell, x, y, inner, palette, hatches, hollow) {
		const shade = this.#shades[cell], flags = this.#data.flags[cell];
		if (flags & closed) hollow.rect(x + 0.5, y + 0.5, inner - 1, inner - 1);
		else if (shade < shades) {
			ctx.fillStyle = palette[shade];
			ctx.fillRect(x, y, inner, inner);
		} else hollow.rect(x + inner / 2 - 1, y + inner / 2 - 1, 1, 1);
		if (!(flags & stranded) || shade === shades) return;
		const hatch = hatches[flags & closed ? 0 : shade]; // a hollow cell is like the first shade
		hatch.moveTo(x, y + inner);
		hatch.lineTo(x + inner, y);
		if (inner <= 9) return;
		hatch.moveTo(x, y + inner / 2);
		hatch.lineTo(x + inner / 2, y);
		hatch.moveTo(x + inner / 2, y + inner);
		hatch.lineTo(x + inner, y + inner / 2);
	}

	// #outline draws the frame of the cell that the keys have reached.
	#outline(ctx, inner, style) {
		const pool = this.#poolOf(this.#at);
		if (pool.bare) return;
		const i = this.#at - pool.first;
		ctx.strokeStyle = style;
		ctx.lineWidth = 2;
		ctx.strokeRect((i % this.#columns) * this.#size - 1, pool.top + Math.floor(i / this.#columns) * this.#size - 1, inner + 2, inner + 2);
	}

	#poolOf(cell) {
		return this.#pools.find((pool) => cell < pool.first + pool.nodes);
	}

	#resource(cell) {
		const { resources, which } = this.#data;
		return resources[which[cell]] || "resources";
	}

	// #cellAt returns the cell at a point, or -1.
	#cellAt(x, y) {
		const pool = this.#pools.find((p) => y >= p.top && y < p.bottom);
		const column = Math.floor(x / this.#size);
		if (!pool || column < 0 || column >= this.#columns) return -1;
		const i = Math.floor((y - pool.top) / this.#size) * this.#columns + column;
		return i < pool.nodes ? pool.first + i : -1;
	}

	// #reached returns the cell that a key leads to: the next one that is drawn, or else the last one before.
	#reached(cell, step) {
		const drawn = this.#pools.filter((pool) => !pool.bare);
		if (drawn.length === 0) return -1;
		const next = Math.min(Math.max(cell, 0), this.#shades.length - 1);
		if (!this.#poolOf(next).bare) return next;
		const before = drawn.findLast((pool) => pool.first < next), after = drawn.find((pool) => pool.first > next);
		const pool = step > 0 ? after ?? before : before ?? after;
		return pool === after ? pool.first : pool.first + pool.nodes - 1;
	}

	#describe(cell) {
		const { names, percents, flags } = this.#data;
		const free = percents[cell] < 0 ? `no ${this.#resource(cell)}` : `${percents[cell]} % of ${this.#resource(cell)} free`;
		this.#cell.textContent = `${names[cell]}, pool ${this.#poolOf(cell).name}: ${free}` +
			(flags[cell] & stranded ? ", stranded" : "") + (flags[cell] & closed ? ", cordoned or not ready" : "");
	}

	#open(cell) {
		if (cell >= 0) location.assign(this.#canvas.dataset.nodes + encodeURIComponent(this.#data.names[cell]));
	}

	#listen() {
		const canvas = this.#canvas;
		const at = (event) => {
			const box = canvas.getBoundingClientRect();
			return this.#data ? this.#cellAt(event.clientX - box.left, event.clientY - box.top) : -1;
		};
		canvas.addEventListener("pointermove", (event) => {
			const cell = at(event);
			canvas.classList.toggle("points", cell >= 0);
			if (cell >= 0) this.#describe(cell);
		});
		canvas.addEventListener("click", (event) => this.#open(at(event)));
		canvas.addEventListener("keydown", (event) => this.#press(event));
	}

	#press(event) {
		if (this.#shades.length === 0) return;
		if (event.key === "Enter") return this.#open(this.#at);
		const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.#columns, ArrowUp: -this.#columns, Home: -Infinity, End: Infinity };
		if (!(event.key in steps)) return;
		event.preventDefault();
		const step = steps[event.key];
		const began = this.#at < 0 && Number.isFinite(step); // the first key leads to the first cell
		this.#at = this.#reached(began ? 0 : Math.max(this.#at, 0) + step, step);
		if (this.#at < 0) return;
		this.#describe(this.#at);
		this.draw();
	}
}
