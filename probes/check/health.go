package check

import (
	"context"
	"errors"
	"fmt"
)

// healthStates are the values of grpc.health.v1.HealthCheckResponse.ServingStatus.
var healthStates = [...]string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

const serving = 1

// Health passes when the server reports over grpc.health.v1 that a service is SERVING.
// The service "" stands for the whole server.
func Health(server GRPC, service string) Func {
	const method = "/grpc.health.v1.Health/Check"
	subject := "grpc.health.v1: "
	if service != "" {
		subject = fmt.Sprintf("grpc.health.v1: service %q: ", service)
	}
	return func(ctx context.Context) (string, error) {
		reply, err := server.call(ctx, method, stringField(1, service))
		var status *Status
		switch {
		case errors.As(err, &status) && status.Code == unimplemented:
			return "", errors.New("no health service (UNIMPLEMENTED)")
		case errors.As(err, &status) && status.Code == notFound:
			return "", fmt.Errorf("service %q is unknown (NOT_FOUND)", service)
		case status != nil:
			return "", fmt.Errorf("%s%w", subject, err)
		case err != nil:
			return "", err
		}
		state, err := enumField(reply)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s%w", subject, err)
		case state == serving:
			return server.String() + " SERVING", nil
		case state < uint64(len(healthStates)):
			return "", errors.New(subject + healthStates[state])
		default:
			return "", fmt.Errorf("%sstate %d", subject, state)
		}
	}
}
