package environments

import (
	"context"

	"millrace/shared/kit/record"
	"millrace/shared/run/registry"
	"millrace/shared/web/httpapi"
)

// service holds the rules of environments.
type service struct {
	store   registry.Store
	secrets record.Store
}

// create makes an environment. Errors: errs.Conflict, errs.TooMany.
func (s *service) create(ctx context.Context, in *createIn) (EnvironmentResponse, error) {
	body := in.Body
	_, err := s.store.CreateEnvironment(ctx, registry.Environment{
		Name: body.Name, Description: body.Description, Color: body.Color, Protected: body.Protected,
	})
	if err != nil {
		return EnvironmentResponse{}, err
	}
	return s.shown(ctx, body.Name)
}

// list lists environments in their order.
func (s *service) list(ctx context.Context, in *listIn) (EnvironmentListResponse, error) {
	all, err := s.all(ctx)
	return EnvironmentListResponse{Items: all[:min(len(all), in.Limit)]}, err
}

func (s *service) all(ctx context.Context) ([]EnvironmentResponse, error) {
	all, err := s.store.Environments(ctx)
	out := make([]EnvironmentResponse, len(all))
	for i := range all {
		out[i] = EnvironmentResponse{Environment: all[i], Position: i + 1}
	}
	return out, err
}

// get shows one environment. Errors: errs.NotFound.
func (s *service) get(ctx context.Context, in *Path) (EnvironmentResponse, error) {
	return s.shown(ctx, in.Name)
}

// shown is an environment with its position. Errors: errs.NotFound.
func (s *service) shown(ctx context.Context, name string) (EnvironmentResponse, error) {
	all, err := s.all(ctx)
	if err != nil {
		return EnvironmentResponse{}, err
	}
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
	}
	return EnvironmentResponse{}, s.store.NoEnvironment(name)
}

// update changes what the body names. Errors: errs.NotFound.
func (s *service) update(ctx context.Context, in *updateIn) (EnvironmentResponse, error) {
	_, err := s.store.UpdateEnvironment(ctx, in.Name, func(e *registry.Environment) error {
		httpapi.Set(&e.Description, in.Body.Description, false)
		httpapi.Set(&e.Color, in.Body.Color, false)
		httpapi.Set(&e.Protected, in.Body.Protected, false)
		return nil
	})
	if err != nil {
		return EnvironmentResponse{}, err
	}
	return s.shown(ctx, in.Name)
}

// reorder sets the order. Errors: errs.Unprocessable unless each is named once.
func (s *service) reorder(ctx context.Context, in *reorderIn) (EnvironmentListResponse, error) {
	if err := s.store.OrderEnvironments(ctx, in.Body.Order); err != nil {
		return EnvironmentListResponse{}, err
	}
	all, err := s.all(ctx)
	return EnvironmentListResponse{Items: all}, err
}

// delete deletes an environment. Errors: errs.NotFound; errs.Conflict while it is in
// use.
func (s *service) delete(ctx context.Context, in *Path) (DeletedEnvironment, error) {
	_, err := s.store.DeleteEnvironment(ctx, in.Name)
	return DeletedEnvironment{Status: "deleted", Name: in.Name}, err
}
