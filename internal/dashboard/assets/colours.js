// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// colour returns a colour of the style sheet in the present theme. Canvases need it as a value.
export function colour(name) {
	const probe = document.createElement("span");
	probe.className = "probe c-" + name;
	document.body.append(probe);
	const value = getComputedStyle(probe).color;
	probe.remove();
	return value;
}

// isLight reports whether dark lines are easier to see on a colour than light ones.
export function isLight(value) {
	const [red, green, blue] = value.match(/[\d.]+/g).map((part) => (part / 255) ** 2.2);
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2;
}
