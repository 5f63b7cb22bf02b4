// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
)

// dashboard is a Grafana dashboard: panels in the order of reading, three in a row.
type dashboard struct {
	file, uid, title, description string
	panels                        []panel
}

// panel is a chart over time.
type panel struct {
	title, description string
	// unit is one of Grafana's.
	unit    string
	queries []query
	stacked bool
}

// query is a query and the text of its legend, with labels as {{label}}.
type query struct{ expr, legend string }

// The grid of Grafana has 24 columns.
const (
	gridColumns = 24
	panelWidth  = gridColumns / 3
	panelHeight = 8
)

// object is a JSON object. encoding/json sorts its keys.
type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// encode returns the dashboard as Grafana imports it.
func (d dashboard) encode() ([]byte, error) {
	var panels []object
	for i, p := range d.panels {
		panels = append(panels, p.encode(i))
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"uid": d.uid, "title": d.title, "description": d.description, "tags": []string{"livesched"},
		"schemaVersion": 39, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":       object{"from": "now-3h", "to": "now"},
		"panels":     panels,
		"templating": object{"list": variables()},
		"links": []object{{
			"title": "livesched", "type": "dashboards", "tags": []string{"livesched"}, "asDropdown": false,
			"includeVars": true, "keepTime": true,
		}},
	})
	return content.Bytes(), err
}

func (p panel) encode(i int) object {
	var targets []object
	for t, q := range p.queries {
		targets = append(targets,
			object{"refId": string(rune('A' + t)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend})
	}
	custom := object{"lineWidth": 1, "fillOpacity": 0, "showPoints": "never"}
	if p.stacked {
		custom["fillOpacity"] = 30
		custom["stacking"] = object{"mode": "normal", "group": "A"}
	}
	perRow := gridColumns / panelWidth
	return object{
		"id": i + 1, "type": "timeseries", "title": p.title, "description": p.description, "datasource": datasource,
		"targets": targets,
		"gridPos": object{"x": i % perRow * panelWidth, "y": i / perRow * panelHeight, "w": panelWidth,
			"h": panelHeight},
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0, "custom": custom}, "overrides": []object{}},
		"options": object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		},
	}
}

// variables are what the user chooses at the top of a dashboard.
func variables() []object {
	return []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
		variable("namespace", "Namespace of livesched", `label_values(livesched_profiles{job="livesched"}, namespace)`,
			false),
		variable("profile", "Profile",
			`label_values(livesched_pending_pods{job="livesched", namespace="$namespace"}, profile)`, true),
	}
}

func variable(name, label, query string, several bool) object {
	v := object{
		"name": name, "label": label, "type": "query", "datasource": datasource, "refresh": 2, "sort": 1,
		"query": query, "definition": query, "multi": several, "includeAll": several,
	}
	if several {
		v["allValue"] = ".*"
		v["current"] = object{"text": "All", "value": "$__all"}
	}
	return v
}
