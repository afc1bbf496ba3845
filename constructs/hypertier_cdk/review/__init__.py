"""What `cdk synth` tells a reviewer: the bill, broad access, encryption, what is public, what stays."""
