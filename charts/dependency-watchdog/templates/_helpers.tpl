{{/* The components that are enabled, each with its values and its name. */}}
{{- define "dwd.components" -}}
{{- $enabled := list }}
{{- range $component := list "prober" "weeder" }}
{{- $values := get $.Values $component }}
{{- if $values.enabled }}
{{- $enabled = append $enabled (dict "component" $component "name" (printf "dwd-%s" $component) "values" $values) }}
{{- end }}
{{- end }}
{{- toJson (dict "items" $enabled) }}
{{- end }}

{{- define "dwd.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* What each object has. Selectors ask for none but the name, and the component beside it. */}}
{{- define "dwd.labels" -}}
app.kubernetes.io/name: dependency-watchdog
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dwd.selector" -}}
app.kubernetes.io/name: dependency-watchdog
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "dwd.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Empty if there is none: a name that there is not would keep every pod from being made. */}}
{{- define "dwd.priorityClass" -}}
{{- $class := .Values.priorityClass }}
{{- $class.name | default (ternary "dependency-watchdog" "" $class.create) }}
{{- end }}
