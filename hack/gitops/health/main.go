// health tells what GitOps tools make of objects: Flux by kstatus, Argo CD by the Lua scripts of its
// ConfigMap. The scripts run as Argo CD runs them: with the same interpreter and no more libraries.
//
//	health ARGOCD-CM.yaml <OBJECTS.json
//
// OBJECTS.json is an array. What is printed is one, too, with a verdict for each object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Verdict is what is made of an object.
type Verdict struct {
	// Flux is a status of kstatus.
	Flux string `json:"flux"`
	// Argo is a health status of Argo CD.
	Argo string `json:"argo"`
	// Message is what Argo CD shows.
	Message string `json:"message"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("give the ConfigMap of Argo CD, and objects on standard input")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var config struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", os.Args[1], err)
	}
	var items []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&items); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	verdicts := make([]Verdict, 0, len(items))
	for _, item := range items {
		// Kubernetes' own decoder: it tells whole numbers from others.
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(item); err != nil {
			return fmt.Errorf("an object of standard input: %w", err)
		}
		verdict, err := judge(&object, config.Data)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		verdicts = append(verdicts, *verdict)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func judge(object *unstructured.Unstructured, config map[string]string) (*Verdict, error) {
	flux, err := kstatus.Compute(object)
	if err != nil {
		return nil, err
	}
	kind := object.GroupVersionKind()
	key := fmt.Sprintf("resource.customizations.health.%s_%s", kind.Group, kind.Kind)
	script, there := config[key]
	if !there {
		return nil, fmt.Errorf("the ConfigMap has no %s", key)
	}
	status, message, err := health(object.Object, script)
	if err != nil {
		return nil, err
	}
	return &Verdict{Flux: flux.Status.String(), Argo: status, Message: message}, nil
}

// health runs a script over an object, for a second at most.
func health(object map[string]any, script string) (status, message string, err error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	result, is := state.Get(-1).(*lua.LTable)
	if !is {
		return "", "", fmt.Errorf("the script returned %s, not a table", state.Get(-1).Type())
	}
	code, is := result.RawGetString("status").(lua.LString)
	if !is {
		return "", "", errors.New("the script returned no status")
	}
	switch code {
	case "Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown":
	default:
		return "", "", fmt.Errorf("%s is no health status", code)
	}
	if text, is := result.RawGetString("message").(lua.LString); is {
		message = string(text)
	}
	return string(code), message, nil
}

func value(state *lua.LState, from any) lua.LValue {
	switch from := from.(type) {
	case bool:
		return lua.LBool(from)
	case float64:
		return lua.LNumber(from)
	case int64:
		return lua.LNumber(from)
	case string:
		return lua.LString(from)
	case []any:
		table := state.CreateTable(len(from), 0)
		for _, item := range from {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(from))
		for key, item := range from {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
