{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}
## {{ $type.Name }}

{{ $type.Doc }}
{{ if $type.References }}
Appears in: {{ range $i, $t := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $t }}{{ end }}.
{{ end }}
{{- if $type.Validation }}
{{ range $type.Validation }}- {{ . }}
{{ end }}
{{- end }}
{{- if $type.Members }}
| Field | Description | Default | Validation |
| --- | --- | --- | --- |
{{ if $type.GVK -}}
| `apiVersion` _string_ | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | | |
| `kind` _string_ | `{{ $type.GVK.Kind }}` | | |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_ | {{ template "type_members" . }} | {{ markdownRenderDefault .Default }} | {{ range .Validation }}{{ if eq . "Optional: {}" }}{{ else if eq . "Required: {}" }}Required<br />{{ else }}{{ markdownRenderFieldDoc . }}<br />{{ end }}{{ end }} |
{{ end -}}
{{ end -}}
{{- if $type.EnumValues }}
| Value | Description |
| --- | --- |
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " }} |
{{ end -}}
{{ end -}}
{{- end -}}
{{- end -}}
