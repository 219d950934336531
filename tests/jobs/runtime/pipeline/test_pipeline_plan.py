"""What the plan of a step says about its table."""

from jobs.runtime.pipeline.pipeline_plan import StepPlan


def test_a_step_without_a_plan_is_not_complete() -> None:
    """It has no tables, of which all units would be done."""
    assert not StepPlan("judge", unknown="reads what step 1 has not written yet").is_complete
    assert StepPlan("judge").is_complete
