"""`onramp transforms`: functions on events; test, rehearse, deploy and operate them."""

import typer

from services.cli.verbs.transforms import authoring, operating

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def transforms() -> None:
    """Run a Python function on every event of a type: write it, test it, rehearse it, deploy it.

    Examples:
    onramp transforms new flight_delays --from flight_departed

    onramp transforms test flight_delays

    onramp transforms rehearse flight_delays --since 24h

    onramp transforms deploy flight_delays --reason "half an hour is a delay"
    """


app.command()(authoring.new)
app.command(name="test")(authoring.run_test)
app.command()(authoring.rehearse)
app.command()(authoring.deploy)
app.command()(operating.rollback)
app.command(name="list")(operating.list_)
app.command()(operating.pause)
app.command()(operating.resume)
app.command()(operating.logs)
