"""Events that wait in their database: released, or dead-lettered by an operator."""
