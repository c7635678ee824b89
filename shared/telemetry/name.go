package telemetry

// String is the metric's name in CloudWatch.
func (m Metric) String() string {
	if int(m) >= metrics {
		return "unknown"
	}
	return described[m].name
}
