// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// Sets the theme that the user has chosen before anything is drawn. It is all that is stored.
try {
	const theme = localStorage.getItem("livesched-theme");
	if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
	// Storage is off: the theme of the system it is.
}
