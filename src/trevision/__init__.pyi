from trevision.audit import audit_estimate as audit_estimate
from trevision.audit import audit_plan as audit_plan
from trevision.classifier import TRevisionClassifier as TRevisionClassifier
from trevision.estimation import anchor_transition as anchor_transition
from trevision.estimation import estimate as estimate
from trevision.estimation import transition_error as transition_error
from trevision.issues import LabelIssues as LabelIssues
from trevision.issues import find_label_issues as find_label_issues
from trevision.losses import BackwardLoss as BackwardLoss
from trevision.losses import ForwardLoss as ForwardLoss
from trevision.losses import ReweightLoss as ReweightLoss
from trevision.losses import backward_nll as backward_nll
from trevision.losses import cross_entropy as cross_entropy
from trevision.losses import forward_nll as forward_nll
from trevision.losses import generalised_cross_entropy as generalised_cross_entropy
from trevision.losses import reweight_nll as reweight_nll
from trevision.losses import symmetric_cross_entropy as symmetric_cross_entropy
from trevision.losses import total_variation_nll as total_variation_nll
from trevision.losses import volume_nll as volume_nll
from trevision.methods.schedules import Schedule as Schedule
from trevision.methods.stages import TransitionWarning as TransitionWarning
from trevision.prior import Prior as Prior
from trevision.refit.classifier import NoisyLabelClassifier as NoisyLabelClassifier
from trevision.training.phase import Phase as Phase
from trevision.transition import Transition as Transition

__version__: str
