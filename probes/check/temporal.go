package check

import (
	"context"
	"errors"
	"fmt"
)

// Temporal passes when a Temporal server describes a namespace: that needs its
// frontend and its database, and its health needs neither namespace nor database.
func Temporal(server GRPC, namespace string) Func {
	const method = "/temporal.api.workflowservice.v1.WorkflowService/DescribeNamespace"
	return func(ctx context.Context) (string, error) {
		_, err := server.call(ctx, method, stringField(namespace)) // field 1 of the request is the namespace
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
		return fmt.Sprintf("temporal %s, namespace %s", server.Address, namespace), nil
	}
}
