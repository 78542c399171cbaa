"""`onramp export`: the registry in force, as a file for `onramp apply`."""

import json

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption


def export(
    *, kafka: KafkaOption = None, data_dir: DataDirOption = DATA_DIR, as_json: JsonOption = False
) -> None:
    """Print the registry in force in Kafka, as YAML or JSON, for `onramp apply`.

    Exits with 3 when Kafka cannot be reached. Example:

    onramp export > onramp.yaml
    """
    import yaml

    from services.cli.connection_options import kafka_settings
    from services.ops.registry.change import editing
    from shared.errors import UserError

    with exits_when_unavailable():
        try:
            with editing(kafka_settings(kafka, data_dir)) as editor:
                document = editor.chain.document()
        except UserError as error:
            complain(error.detail)
            raise typer.Exit(Exit.FAILED) from None
    text = json.dumps(document) if as_json else yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    print(text.rstrip("\n"))
