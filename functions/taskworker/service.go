package taskworker

import "millrace/shared/web/fn"

// messages builds the worker with all executors.
func messages(d fn.Deps) fn.MessageHandler { return d.Tasks().Messages }
