package check

import (
	"context"
	"errors"
	"fmt"
)

// workflowService has the methods of Temporal's clients: temporal/api/workflowservice/v1/service.proto.
const workflowService = "/temporal.api.workflowservice.v1.WorkflowService/"

// probeWorkflow is the ID of a workflow that nobody has.
const probeWorkflow = "codex-proxy-probe"

// Temporal passes when workflows can start in a namespace of a Temporal server. Its health says SERVING without a
// database and without a namespace; to describe the namespace takes its frontend and its database, and to look for a
// workflow takes the part that keeps workflows, which the frontend may not reach: a development server listens at its
// --ip, and its parts look for each other at 127.0.0.1.
func Temporal(server GRPC, namespace string) Func {
	return func(ctx context.Context) (string, error) {
		// Field 1 of both requests is the namespace.
		_, err := server.call(ctx, workflowService+"DescribeNamespace", stringField(1, namespace))
		var status *Status
		switch {
		case errors.As(err, &status) && status.Code == unimplemented:
			return "", errors.New("no Temporal service (UNIMPLEMENTED)")
		case errors.As(err, &status) && status.Code == notFound:
			return "", fmt.Errorf("namespace %q is unknown (NOT_FOUND)", namespace)
		case status != nil:
			return "", fmt.Errorf("namespace %q: %w", namespace, err)
		case err != nil:
			return "", err
		}
		execution := stringField(2, string(stringField(1, probeWorkflow)))
		_, err = server.call(ctx, workflowService+"DescribeWorkflowExecution",
			append(stringField(1, namespace), execution...))
		if err != nil && (!errors.As(err, &status) || status.Code != notFound) {
			return "", fmt.Errorf("no workflow can start in namespace %q: %w", namespace, err)
		}
		return fmt.Sprintf("temporal %s, namespace %s", server.Address, namespace), nil
	}
}
