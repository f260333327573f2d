{{/* The components that are enabled, each with its values and its name, which its ServiceAccount has, too. */}}
{{- define "dwd.components" -}}
{{- $enabled := list }}
{{- range $component := list "prober" "weeder" }}
{{- $values := get $.Values $component }}
{{- if $values.enabled }}
{{- $name := printf "dwd-%s" $component }}
{{- $enabled = append $enabled (dict "component" $component "name" $name "values" $values) }}
{{- end }}
{{- end }}
{{- toJson (dict "items" $enabled) }}
{{- end }}

{{- define "dwd.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* The labels of each object. Selectors ask for none but the name, and the component in addition. */}}
{{- define "dwd.labels" -}}
{{ include "dwd.templateLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels of pods. */}}
{{- define "dwd.templateLabels" -}}
app.kubernetes.io/name: dependency-watchdog
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: dependency-watchdog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dwd.selector" -}}
app.kubernetes.io/name: dependency-watchdog
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "dwd.image" -}}
{{- $image := .Values.image }}
{{- with $image.registry | default (.Values.global).imageRegistry }}{{ . }}/{{ end }}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "dwd.linksMissing" -}}
The chart's files are missing: they are symbolic links, which Flux drops from a GitRepository. Use the packaged chart.
{{- end }}

{{/* Empty if there is none: a name that does not exist would keep every pod from being made. */}}
{{- define "dwd.priorityClass" -}}
{{- $class := .Values.priorityClass }}
{{- $class.name | default (ternary "dependency-watchdog" "" $class.create) }}
{{- end }}
