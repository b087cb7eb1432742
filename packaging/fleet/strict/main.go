// Decodes the manifests of Kubernetes on standard input, and refuses fields that don't exist.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	for _, text := range strings.Split(string(input), "\n---\n") {
		var daemons appsv1.DaemonSet
		var job batchv1.CronJob
		var into any = &daemons
		if strings.Contains(text, "\nkind: CronJob\n") {
			into = &job
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ok:", daemons.Kind+job.Kind)
	}
}
