"""A wait of two hours between two tasks; the service holds no worker meanwhile.

    python -c 'import flow; print(flow.settle.run(stub=flow.AT_ONCE).result)'
"""

from millrace import flow, task, transform, wait

# For a local run that does not wait.
AT_ONCE = {"clearing": {"waited_seconds": 7200}}


@task
def submit(amount: int):
    print("submitted", amount)
    return {"reference": f"T-{amount}"}


@task
def confirm(submitted, waited):
    print(f"{submitted['reference']} is cleared after {waited} s")
    return {"reference": submitted["reference"], "hours": waited / 3600}


@flow(timeout="3h")
def settle(amount: int = 250):
    sent = submit(amount)
    rest = wait("clearing", 7200).after(sent)
    checked = transform("checked", "tasks.clearing.output.waited_seconds >= 7200").after(rest)
    return confirm(sent, rest["waited_seconds"]).after(checked)


if __name__ == "__main__":
    print(settle.run(stub=AT_ONCE).result)
